"""Why ranks failed: which of several failures caused the rest, and what other workers report."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ampspec.jobs import Reason
from store.gangs import gang_members
from store.tables import GangMember
from worker.attempt.outcome import Failure

PRECEDENCE: Final = {
    Reason.PORT_TAKEN: -2,
    Reason.OUT_OF_MEMORY: -1,
    Reason.INTERNAL_ERROR: 1,
    Reason.RANK_LOST: 2,
}
"""The lowest number is the cause; reasons that are not listed have 0.

When a rank is killed, the others lose it, and their communication may end with any error.
"""
REASONS: Final = frozenset(Reason)


@dataclass(frozen=True)
class OtherWorkers:
    """The state of the workers of the other ranks, as it was last read."""

    have_ended: bool = False
    failure: Failure | None = None
    """The cause of their failures."""
    stop_request: str | None = None
    """Why a worker requests that the attempt stop."""


def cause_of(failures: Iterable[Failure | None]) -> Failure | None:
    """The cause of these failures; the first of several equal ones, and None without any."""
    known_failures = (failure for failure in failures if failure is not None)
    return min(known_failures, key=lambda failure: PRECEDENCE.get(failure.reason, 0), default=None)


def summary_of(members: Sequence[GangMember]) -> OtherWorkers:
    """Summarize the rows of an attempt's workers; the first is the worker of rank 0."""
    failures = [
        Failure(Reason(member.reason), member.message or "")
        for member in members
        if member.reason in REASONS
    ]
    stop_requests = [member.stop_request for member in members if member.stop_request is not None]
    return OtherWorkers(
        have_ended=all(member.state == gang_members.ENDED for member in members[1:]),
        failure=cause_of(failures),
        stop_request=stop_requests[0] if stop_requests else None,
    )
