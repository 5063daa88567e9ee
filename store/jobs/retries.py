"""Automatic retries: which failures are retried, and after which delay."""

from dataclasses import dataclass
from typing import Final

from ampspec.jobs import Reason
from store.jobs.resume_point import ResumePoint


@dataclass(frozen=True)
class Backoff:
    """Exponential backoff: `first_s`, doubled with each failure, up to `longest_s`."""

    first_s: float
    longest_s: float

    def wait_s(self, failures: int) -> float:
        """The delay after this many failures in a row (1 or more)."""
        # The exponent is bounded: 2.0**1100 overflows.
        return min(self.first_s * 2.0 ** min(failures - 1, 60), self.longest_s)


BACKOFF_BY_REASON: Final[dict[str, Backoff]] = {
    # The job itself is fine: another worker may continue it at once, but not in a tight loop.
    Reason.WORKER_LOST: Backoff(first_s=1.0, longest_s=60.0),
    Reason.RANK_LOST: Backoff(first_s=1.0, longest_s=60.0),
    Reason.PROCESS_KILLED: Backoff(first_s=5.0, longest_s=300.0),
    Reason.STORAGE_UNAVAILABLE: Backoff(first_s=5.0, longest_s=300.0),
    Reason.INTERNAL_ERROR: Backoff(first_s=5.0, longest_s=300.0),
}
"""Any other reason is caused by the job and would recur: out of memory, bad data, timeout."""


def final_failure_advice(reason: str, failures: int, point: ResumePoint) -> str:
    """Appended to the message of the last attempt; a retry starts at `point`."""
    attempts = f" {failures} attempts failed." if failures > 1 else ""
    may_help = reason in BACKOFF_BY_REASON or reason == Reason.TIMEOUT
    advice = f" Retry it to train {point}." if may_help else ""
    return attempts + advice


def wait_s(reason: str, failures: int, max_attempts: int) -> float | None:
    """Seconds until the next attempt, after `failures` failed ones; None if there is none."""
    if failures >= max_attempts or reason not in BACKOFF_BY_REASON:
        return None
    return BACKOFF_BY_REASON[reason].wait_s(failures)
