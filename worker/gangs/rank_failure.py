"""Which of several failures of ranks caused the rest."""

from collections.abc import Iterable
from typing import Final

from ampspec.jobs import Reason
from worker.attempt.outcome import Failure

PRECEDENCE: Final = {Reason.PORT_TAKEN: -1, Reason.INTERNAL_ERROR: 1, Reason.RANK_LOST: 2}
"""The lowest number is the cause; reasons that are not listed have 0.

When a rank is killed, the others lose it, and their communication may end with any error.
"""


def cause_of(failures: Iterable[Failure | None]) -> Failure | None:
    """The cause of these failures; the first of several equal ones, and None without any."""
    known_failures = (failure for failure in failures if failure is not None)
    return min(known_failures, key=lambda failure: PRECEDENCE.get(failure.reason, 0), default=None)
