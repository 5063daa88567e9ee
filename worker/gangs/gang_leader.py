"""GangLeader: on the worker of rank 0, watches the other ranks and asks them to stop."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from ampspec.jobs import Reason
from store.database import Database
from store.gangs import gang_members
from store.tables import GangMember
from worker.attempt.outcome import RANK_FAILED, AttemptOutcome, AttemptResult, Failure
from worker.attempt.rank import LocalRank
from worker.attempt.stop_reason import StopReason
from worker.gangs.rank_failure import cause_of
from worker.gangs.rank_group import SHUTDOWN, RankGroup

log = logging.getLogger(__name__)

POLL_S: Final = 0.5
PORT_TAKEN: Final = (
    "Another process had taken the port of a rank before it started. The job starts again with "
    "other ports; this does not count as a failed attempt."
)
REASONS: Final = frozenset(Reason)
STATE_OF_OUTCOME: Final = {
    AttemptOutcome.SUCCEEDED: "succeeded",
    AttemptOutcome.FAILED: "failed",
}
STOP_REASONS: Final = {SHUTDOWN: StopReason.SHUTDOWN}


@dataclass(frozen=True)
class Ended:
    """The last polled state of the workers of the other ranks."""

    all_have_ended: bool = False
    failure: Failure | None = None
    """The cause of their failures."""
    stop_request: str | None = None
    """Why a worker requests that the attempt stop."""


class GangLeader:
    """Watches the workers of an attempt's other ranks, in a separate thread.

    Args:
        database: The database.
        job_id: The job.
        attempt: The attempt; its worker runs rank 0.
        first: Rank 0.
        local_ranks: The other ranks of this worker.
    """

    def __init__(
        self,
        database: Database,
        job_id: str,
        attempt: int,
        *,
        first: LocalRank,
        local_ranks: RankGroup,
    ) -> None:
        self.first, self._local_ranks = first, local_ranks
        self._database, self._job_id, self._attempt = database, job_id, attempt
        self._progress = Ended()
        self._stop_requested = self._stop_stored = False
        self._done = threading.Event()
        run = copy_context().run
        self._thread = threading.Thread(
            target=run, args=[self._run], name="gang-leader", daemon=True
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread."""
        self._done.set()
        self._thread.join()

    def stop_reason(self) -> StopReason | None:
        """Why rank 0 must stop because of another rank; None while it need not."""
        if self._failure() is not None:
            return StopReason.RANK_FAILED
        return STOP_REASONS.get(self._progress.stop_request or "")

    def request_stop(self) -> None:
        """Request that all workers end the other ranks."""
        self._stop_requested = True
        self._local_ranks.stop()

    def conclude(
        self,
        result: AttemptResult | None,
        *,
        grace_s: float,
        may_wait: Callable[[], bool],
    ) -> AttemptResult | None:
        """Wait until all other ranks have ended; returns the result with the cause of a failure.

        Args:
            result: The result of rank 0; None if the attempt no longer owns the job.
            grace_s: How long the others may go on after rank 0 has succeeded.
            may_wait: False once this worker must not wait any longer.
        """
        if result is None:
            return None
        self.first.outcome = STATE_OF_OUTCOME.get(result.outcome, "stopped")
        has_succeeded = result.outcome is AttemptOutcome.SUCCEEDED
        stop_at = time.monotonic() + (grace_s if has_succeeded else 0.0)
        while may_wait() and not (self._progress.all_have_ended and self._local_ranks.has_ended):
            if time.monotonic() >= stop_at:
                self.request_stop()
            time.sleep(POLL_S / 5)
        return with_cause(result, self._failure())

    def _failure(self) -> Failure | None:
        """The cause of the failures of other ranks, on any worker."""
        return cause_of([self._local_ranks.failure, self._progress.failure])

    def _run(self) -> None:
        while not self._done.is_set():
            try:
                self._poll()
            except SQLAlchemyError as error:
                log.warning("cannot read the state of the other ranks: %s", error)
            self._done.wait(POLL_S)

    def _poll(self) -> None:
        if self._stop_requested and not self._stop_stored:
            with self._database.write() as session:
                gang_members.request_stop(session, self._job_id, self._attempt)
            self._stop_stored = True
        with self._database.read() as session:
            self._progress = summary_of(gang_members.listing(session, self._job_id, self._attempt))


def summary_of(members: Sequence[GangMember]) -> Ended:
    """Summarize the rows of an attempt's workers; the first is the worker of rank 0."""
    failures = [
        Failure(Reason(member.reason), member.message or "")
        for member in members
        if member.reason in REASONS
    ]
    stop_requests = [member.stop_request for member in members if member.stop_request is not None]
    return Ended(
        all_have_ended=all(member.state == gang_members.ENDED for member in members[1:]),
        failure=cause_of(failures),
        stop_request=stop_requests[0] if stop_requests else None,
    )


def with_cause(result: AttemptResult, failure: Failure | None) -> AttemptResult:
    """The result of an attempt, from the result of rank 0 and a failure of another rank."""
    if result.outcome is not AttemptOutcome.FAILED or result.reason is None:
        return result
    first = Failure(result.reason, result.message or "")
    # A rank 0 that was only stopped does not know why: the other ranks' cause comes first.
    failures = [failure, first] if result.message == RANK_FAILED else [first, failure]
    cause = cause_of(failures) or first
    if cause.reason == Reason.PORT_TAKEN:
        return AttemptResult(AttemptOutcome.REQUEUED, Reason.PORT_TAKEN, PORT_TAKEN)
    return AttemptResult(AttemptOutcome.FAILED, cause.reason, cause.message)
