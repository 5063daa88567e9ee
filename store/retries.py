"""Which failures another attempt may do away with, and how long to wait before it."""

from dataclasses import dataclass
from typing import Final

from ampcore.spec import Reason


@dataclass(frozen=True)
class BackOff:
    """Seconds before the next attempt: `first_s`, doubled with each failure, up to `longest_s`."""

    first_s: float
    longest_s: float

    def wait_s(self, failures: int) -> float:
        """How long to wait after so many failures in a row (1 or more)."""
        # The exponent is bounded, since 2.0**1100 is no float.
        return min(self.first_s * 2.0 ** min(failures - 1, 60), self.longest_s)


RETRIED: Final[dict[str, BackOff]] = {
    # Nothing is wrong with the job: it may go on elsewhere at once, but not in a tight loop.
    Reason.WORKER_LOST: BackOff(first_s=1.0, longest_s=60.0),
    Reason.PROCESS_KILLED: BackOff(first_s=5.0, longest_s=300.0),
    Reason.INTERNAL_ERROR: BackOff(first_s=5.0, longest_s=300.0),
}
"""Every other reason is the job's own fault and would come again: too large, bad data, timeout."""


def advice(reason: str, failures: int) -> str:
    """What to say after the last attempt."""
    tried = f" It was tried {failures} times." if failures > 1 else ""
    again = " Retry it to go on from its last checkpoint." if reason in RETRIED else ""
    return tried + again


def wait_s(reason: str, failures: int, max_attempts: int) -> float | None:
    """Seconds until the next attempt, after `failures` failed ones; None: there is none."""
    if failures >= max_attempts or reason not in RETRIED:
        return None
    return RETRIED[reason].wait_s(failures)
