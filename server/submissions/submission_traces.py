"""What submissions add to the traces of their requests: the transaction, and the messages."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from ampspec.api.job.jobs import Job
from infra import traces
from infra.celery_names import queue_key

MAX_SENT: Final = 20
"""Spans of messages of one request: a batch has up to a thousand jobs."""


def record_write(
    began_ns: int, context: str | None, *, size: int, job: Job | None, error: Exception | None
) -> None:
    """Record the transaction that has created a job, alone or with others.

    Args:
        began_ns: When it began, from `traces.clock_ns`.
        context: The span of the request.
        size: How many submissions shared the transaction.
        job: The new job; None: an error, a repeated request, or several jobs.
        error: Why the submission was refused.
    """
    attributes: dict[str, str | int] = {"ampcore.batch.size": size}
    if job is not None:
        attributes["ampcore.job.id"] = job.id
    kind = type(error).__name__ if error is not None else None
    traces.record("write job", began_ns, context=context, attributes=attributes, error=kind)


@contextmanager
def recorded_sends(sent: Sequence[tuple[str | None, Job]]) -> Iterator[None]:
    """Record the messages that are sent inside, of jobs with the spans of their requests.

    A message that was lost is no error: the reconciler sends it again.
    """
    began_ns = traces.clock_ns()
    yield
    for context, job in sent[:MAX_SENT]:
        traces.record(
            f"send {job.queue}",
            began_ns,
            context=context,
            kind="producer",
            attributes={
                "messaging.system": "redis",
                "messaging.operation.type": "send",
                "messaging.operation.name": "send",
                "messaging.destination.name": queue_key(job.queue),
                "ampcore.job.id": job.id,
            },
        )
