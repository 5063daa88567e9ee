"""The spans of one attempt: the time in the queue, what it does until its first step, and later.

The attempt is a child of the request that submitted its job, and links to that and to the attempt
before (docs/adr/0100). Its spans end one after the other: an attempt does one thing at a time.
"""

from datetime import datetime
from typing import Final

from ampspec.telemetry.activities import Activity
from infra import traces
from infra.celery_names import queue_key
from store.tables import Job
from worker.attempt.outcome import AttemptResult

FIRST_STEP: Final = "first step"
SPAN_NAMES: Final = {
    Activity.DOWNLOADING: "download files",
    Activity.STARTING: "start trainer",
    Activity.PREPARING: "prepare model and data",
    Activity.COMPILING: "compile",
    Activity.DIAGNOSING: "diagnose",
    Activity.EVALUATING: "evaluate",
    Activity.SAVING: "save",
    Activity.UPLOADING: "upload files",
}
"""Training has no span but that of its first step: the steps have telemetry of their own."""
MAX_SPANS: Final = 100
"""Of one attempt: a long training evaluates and saves thousands of times."""


class AttemptTrace:
    """Records one attempt; nothing while no spans are sent.

    Args:
        job: The job as it was claimed.
        claim_began_ns: When the worker began to claim it; None: not known.
    """

    def __init__(self, job: Job, claim_began_ns: int | None = None) -> None:
        self._job_id, self._attempt, parent = job.id, job.attempt, job.trace_context
        self._part = traces.NOT_RECORDED
        self._spans_left, self._has_trained = MAX_SPANS, False
        now_ns = traces.clock_ns()
        claim_began_ns = claim_began_ns or now_ns
        self._span = traces.begin(
            f"process {job.queue}",
            context=parent,
            kind="consumer",
            began_ns=claim_began_ns,
            linked=[span for span in (parent, job.attempt_context) if span is not None],
            attributes={
                "messaging.system": "redis",
                "messaging.operation.type": "process",
                "messaging.operation.name": "process",
                "messaging.destination.name": queue_key(job.queue),
                **self._ids,
            },
        )
        if self.context is not None:
            waited_ns = int(_waited_s(job.queued_at, job.changed_at or job.updated_at) * 1e9)
            queue_context = parent or self.context
            traces.record(
                "wait in queue", now_ns - waited_ns, context=queue_context, attributes=self._ids
            )
            traces.record("claim job", claim_began_ns, context=self.context, attributes=self._ids)

    @property
    def context(self) -> str | None:
        """The span of the attempt, as a `traceparent`; None while no spans are sent."""
        return self._span.context

    @property
    def _ids(self) -> dict[str, str | int]:
        return {"ampcore.job.id": self._job_id, "ampcore.job.attempt": self._attempt}

    def enter(self, activity: Activity | None) -> None:
        """The attempt does this from now on; None: nothing that has a span."""
        if self.context is None:
            return
        is_first_step = activity is Activity.TRAINING and not self._has_trained
        name = FIRST_STEP if is_first_step else SPAN_NAMES.get(activity) if activity else None
        self._part.end()
        self._part = traces.NOT_RECORDED
        if name is not None and self._spans_left > 0:
            self._spans_left -= 1
            self._part = traces.begin(name, context=self.context, attributes=self._ids)

    def first_steps(self, count: int) -> None:
        """The first steps have arrived, so many at once."""
        if self.context is None or self._has_trained:
            return
        self._has_trained = True
        self._part.end({"ampcore.steps": count})
        self._part = traces.NOT_RECORDED

    def end(self, result: AttemptResult | None) -> None:
        """The attempt has ended; None: without a result, and another worker goes on."""
        self._part.end()
        outcome = result.outcome if result is not None else "abandoned"
        error = outcome if outcome in ("failed", "abandoned") else None
        if result is not None and result.reason is not None and error is not None:
            error = result.reason
        self._span.end({"ampcore.job.outcome": outcome}, error=error)


def _waited_s(queued_at: datetime, claimed_at: datetime) -> float:
    """Both by the clock of the database: that of the worker may differ."""
    return max((claimed_at - queued_at).total_seconds(), 0.0)
