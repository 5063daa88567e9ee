"""GangLeader: on the worker of rank 0, ends the attempt of all ranks together."""

import time
from collections.abc import Callable
from typing import Final

from ampspec.jobs import Reason
from worker.attempt.outcome import RANK_FAILED, AttemptOutcome, AttemptResult, Failure
from worker.attempt.rank import LocalRank
from worker.attempt.stop_reason import StopReason
from worker.gangs.follower_ranks import SHUTDOWN, FollowerRanks
from worker.gangs.rank_failure import cause_of

POLL_S: Final = 0.1
PORT_TAKEN: Final = (
    "Another process had taken the port of a rank before it started. The job starts again with "
    "other ports; this does not count as a failed attempt."
)
STATE_OF_OUTCOME: Final = {
    AttemptOutcome.SUCCEEDED: "succeeded",
    AttemptOutcome.FAILED: "failed",
}
STOP_REASONS: Final = {SHUTDOWN: StopReason.SHUTDOWN}


class GangLeader:
    """What the attempt of rank 0 needs of the other ranks, on any worker.

    Args:
        first: Rank 0.
        ranks: The ranks of its worker, which also reads the state of the other workers.
    """

    def __init__(self, first: LocalRank, ranks: FollowerRanks) -> None:
        self.first, self._ranks = first, ranks

    def stop_reason(self) -> StopReason | None:
        """Why rank 0 must stop because of another rank; None while it need not."""
        if self._failure() is not None:
            return StopReason.RANK_FAILED
        return STOP_REASONS.get(self._ranks.other_workers.stop_request or "")

    def request_stop(self) -> None:
        """Request that all workers end the other ranks."""
        self._ranks.request_stop()

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
        while may_wait() and not (self._ranks.other_workers.have_ended and self._ranks.has_ended):
            if time.monotonic() >= stop_at:
                self.request_stop()
            time.sleep(POLL_S)
        return with_cause(result, self._failure())

    def _failure(self) -> Failure | None:
        """The cause of the failures of other ranks, on any worker."""
        return cause_of([self._ranks.failure, self._ranks.other_workers.failure])


def with_cause(result: AttemptResult, failure: Failure | None) -> AttemptResult:
    """The result of an attempt, from the result of rank 0 and a failure of another rank."""
    has_succeeded = result.outcome is AttemptOutcome.SUCCEEDED
    if has_succeeded and failure is not None and failure.reason == Reason.INTERNAL_ERROR:
        # All ranks may have ended well, but a worker could not store what one of them wrote.
        return AttemptResult(AttemptOutcome.FAILED, failure.reason, failure.message)
    if result.outcome is not AttemptOutcome.FAILED or result.reason is None:
        return result
    first = Failure(result.reason, result.message or "")
    # A rank 0 that was only stopped does not know why: the other ranks' cause comes first.
    failures = [failure, first] if result.message == RANK_FAILED else [first, failure]
    cause = cause_of(failures) or first
    if cause.reason == Reason.PORT_TAKEN:
        return AttemptResult(AttemptOutcome.REQUEUED, Reason.PORT_TAKEN, PORT_TAKEN)
    return AttemptResult(AttemptOutcome.FAILED, cause.reason, cause.message)
