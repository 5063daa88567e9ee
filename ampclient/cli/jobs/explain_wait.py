"""`ampctl job explain-wait`: why a job does not run yet, and who could run it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from ampclient._display import formats
from ampclient.cli.options import AsJson, JobId, client_of, job_in
from ampclient.cli.output.record_output import print_allocations
from ampclient.cli.output.server_output import print_workers
from ampclient.cli.output.tables import ago, print_json
from ampclient.errors import NotFound
from ampspec.documents.text import plural
from ampspec.jobs import State

if TYPE_CHECKING:
    from ampclient._job.job import Job
    from ampspec.api.job.allocations import Allocation
    from ampspec.api.workers import Worker


def explain_wait(context: typer.Context, job_id: JobId, as_json: AsJson = False) -> None:
    """Explain why a job does not run yet: its turn, its quotas, and the workers of its queue.

    A job that does not wait says what it does instead; both exit 0.
    """
    client = client_of(context)
    job = job_in(client, job_id)
    is_queued = job.state is State.QUEUED
    online = [worker for worker in client.workers.list() if worker.state == "online"]
    able = [worker for worker in online if _may_run(worker, job)] if is_queued else []
    allocations = _allocations(job) if is_queued else []
    if as_json:
        print_json(
            {
                "id": job.id,
                "state": str(job.state),
                "queue": job.queue,
                "waiting": job.waiting,
                "workers": [worker.to_json() for worker in able],
                "allocations": [allocation.to_json() for allocation in allocations],
            }
        )
        return
    typer.echo(_sentence(job))
    if not is_queued:
        return
    typer.echo(f"\n{_workers_sentence(job, able, online)}")
    if able:
        print_workers(able)
    if allocations:
        typer.echo("\nWhat a batch system was asked for:")
        print_allocations(allocations)


def _may_run(worker: "Worker", job: "Job") -> bool:
    if worker.draining:
        return False
    if worker.job_id is not None:
        return worker.job_id == job.id
    return job.queue in worker.queues


def _allocations(job: "Job") -> "list[Allocation]":
    try:
        return job.allocations()
    except NotFound:  # a server that knows no batch systems
        return []


def _sentence(job: "Job") -> str:
    name = f"{formats.printable(job.name)} ({job.id})"
    submitted = f"submitted {ago(job.created_at)}"
    match job.state:
        case State.QUEUED:
            size = f", for {job.ranks} ranks" if job.ranks > 1 else ""
            reason = job.waiting or "The server gives no reason; a worker may be starting it."
            return (
                f"{name} waits in the queue {job.queue!r} with priority {job.priority}{size}, "
                f"{submitted}.\n{formats.printable(reason)}"
            )
        case State.PAUSED:
            return f"{name} is paused. Continue it with: ampctl job resume {job.id}"
        case _:
            return f"{name} does not wait: it is {job.state_text}, {submitted}."


def _workers_sentence(job: "Job", able: "Sequence[Worker]", online: "Sequence[Worker]") -> str:
    """How many workers serve the queue, their slots, and which queues the others serve."""
    if any(worker.job_id == job.id for worker in able):
        return "A worker for this job alone is online."
    queue = job.queue
    draining = [worker for worker in online if worker.draining and queue in worker.queues]
    if able:
        busy = sum(len(worker.jobs) for worker in able)
        slots = plural(sum(worker.slots for worker in able), "slot")
        verb = "serves" if len(able) == 1 else "serve"
        text = (
            f"{plural(len(able), 'online worker')} {verb} the queue {queue!r}; jobs that you may "
            f"see take {busy} of {slots}."
        )
    else:
        queues = sorted({name for worker in online for name in worker.queues} - {queue})
        other_queues = formats.printable(", ".join(queues))
        text = f"No online worker takes jobs of the queue {queue!r}"
        text += f"; others serve {other_queues}." if queues else "."
    if draining:
        names = formats.printable(", ".join(worker.hostname for worker in draining))
        text += f" Drained, and takes no job until it is started again: {names}."
    return text
