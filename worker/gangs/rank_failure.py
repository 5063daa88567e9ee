"""RankFailure: why a rank failed, and which of several failures caused the rest."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ampspec.jobs import Reason

PRECEDENCE: Final = {Reason.PORT_TAKEN: -1, Reason.INTERNAL_ERROR: 1, Reason.RANK_LOST: 2}
"""The lowest number is the cause; reasons that are not listed have 0.

When a rank is killed, the others lose it, and their communication may end with any error.
"""


@dataclass(frozen=True)
class RankFailure:
    """Why a rank, or the ranks of a worker, failed."""

    reason: Reason
    message: str


def cause_of(failures: Iterable[RankFailure | None]) -> RankFailure | None:
    """The cause of these failures; the first of several equal ones, and None without any."""
    known_failures = (failure for failure in failures if failure is not None)
    return min(known_failures, key=lambda failure: PRECEDENCE.get(failure.reason, 0), default=None)
