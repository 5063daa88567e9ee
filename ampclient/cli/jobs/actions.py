"""`ampctl cancel`, `pause`, `resume`, `retry`, `clone`, `extend`, `edit`, `delete`, `restore`."""

from typing import Annotated, Any, Final

import typer

from ampclient._job.job import Job
from ampclient.cli.exit_status import ExitStatus
from ampclient.cli.jobs.watch import Wait, Watch, wait_for_state, watch_to_the_end
from ampclient.cli.options import AsJson, JobId, client_of, job_of
from ampclient.cli.output.tables import print_json
from ampclient.cli.shell_completion import job_ids, trashed_job_ids
from ampclient.cli.submit.submit import (
    Assignments,
    IdempotencyKey,
    parsed_assignments,
    print_posted,
)
from ampspec.jobs import State

ENDED_STATES: Final = tuple(state for state in State if state.is_terminal)
ACTIVE_STATES: Final = tuple(state for state in State if not state.is_terminal)


def _one_of(*states: State) -> Any:
    return typer.Argument(
        metavar="ID", help="The job's id.", show_default=False, autocompletion=job_ids(*states)
    )


NotEnded = Annotated[str, _one_of(*ACTIVE_STATES)]
Succeeded = Annotated[str, _one_of(State.SUCCEEDED)]
Paused = Annotated[str, _one_of(State.PAUSED)]
EndedBadly = Annotated[str, _one_of(State.FAILED, State.CANCELLED)]
Ended = Annotated[str, _one_of(*ENDED_STATES)]


Trashed = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="The job's id.", show_default=False, autocompletion=trashed_job_ids
    ),
]
Permanent = Annotated[
    bool,
    typer.Option("--permanent", help="Delete at once, also from the trash: nothing restores it."),
]


def cancel(
    context: typer.Context, job_id: NotEnded, wait: Wait = False, as_json: AsJson = False
) -> None:
    """Cancel a job; with --wait, return once its process has ended."""
    job = job_of(context, job_id).cancel()
    _print_state(job, State.STOPPING, State.CANCELLED, wait=wait, as_json=as_json)


def pause(
    context: typer.Context, job_id: NotEnded, wait: Wait = False, as_json: AsJson = False
) -> None:
    """Pause a job at a checkpoint; with --wait, return once it is paused."""
    job = job_of(context, job_id).pause()
    _print_state(job, State.PAUSING, State.PAUSED, wait=wait, as_json=as_json)


def resume(
    context: typer.Context, job_id: Paused, watch: Watch = False, as_json: AsJson = False
) -> None:
    """Resume a paused job from its checkpoint."""
    _queued_again(job_of(context, job_id).resume(), watch=watch, as_json=as_json)


def retry(
    context: typer.Context, job_id: EndedBadly, watch: Watch = False, as_json: AsJson = False
) -> None:
    """Retry a failed or cancelled job from its last checkpoint."""
    _queued_again(job_of(context, job_id).retry(), watch=watch, as_json=as_json)


def clone(
    context: typer.Context,
    job_id: JobId,
    *,
    assignments: Assignments = None,
    key: IdempotencyKey = None,
    watch: Watch = False,
    as_json: AsJson = False,
) -> None:
    """Queue a new job with the spec of an existing one and print its id."""
    values = parsed_assignments(assignments or ())
    job = job_of(context, job_id).clone(values, idempotency_key=key)
    print_posted(job, watch=watch, as_json=as_json)


def extend(
    context: typer.Context,
    job_id: Succeeded,
    *,
    epochs: Annotated[
        int, typer.Option("--epochs", min=1, metavar="N", help="The number of further epochs.")
    ],
    key: IdempotencyKey = None,
    watch: Watch = False,
    as_json: AsJson = False,
) -> None:
    """Queue a new job that continues a succeeded one for more epochs, from its last checkpoint."""
    extension = job_of(context, job_id).extend(epochs, idempotency_key=key)
    print_posted(extension, watch=watch, as_json=as_json)


def edit(
    context: typer.Context,
    job_id: JobId,
    *,
    name: Annotated[str | None, typer.Option(help="New name.", show_default=False)] = None,
    priority: Annotated[
        int | None,
        typer.Option(min=0, max=9, help="0 (last) to 9 (first).", show_default=False),
    ] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option(
            "--label", metavar="KEY=VALUE", help="Set a label. May be repeated.", show_default=False
        ),
    ] = None,
    removed: Annotated[
        list[str] | None,
        typer.Option(
            "--remove-label",
            metavar="KEY",
            help="Remove a label. May be repeated.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change the name, the labels or the priority of a job."""
    pairs = [label.partition("=") for label in labels or ()]
    if any(not key or not equals for key, equals, _ in pairs):
        raise typer.BadParameter("expected KEY=VALUE, as in team=vision", param_hint="--label")
    if name is None and priority is None and not pairs and not removed:
        raise typer.BadParameter(
            "nothing to change: give --name, --priority, --label or --remove-label"
        )
    job = job_of(context, job_id)
    labels_after = {**job.labels, **{key: value for key, _, value in pairs}}
    for key in removed or ():
        labels_after.pop(key, None)
    changed = job.edit(
        name=name, priority=priority, labels=labels_after if labels_after != job.labels else None
    )
    _print_result(changed, f"{changed.id} updated", as_json=as_json)


def delete(
    context: typer.Context, job_id: Ended, permanent: Permanent = False, as_json: AsJson = False
) -> None:
    """Delete a job that has ended, with its steps, logs and files; it can be restored for a day."""
    jobs = client_of(context).jobs
    if permanent:
        jobs.delete(job_id, permanent=True)
        if as_json:
            print_json({"deleted": job_id})
        else:
            typer.echo(f"{job_id} deleted")
        return
    job = job_of(context, job_id)
    job.delete()
    _print_result(
        job, f"{job.id} deleted; `ampctl job restore {job.id}` restores it", as_json=as_json
    )


def restore(context: typer.Context, job_id: Trashed, as_json: AsJson = False) -> None:
    """Take a deleted job out of the trash; `ampctl job list --trash` lists them."""
    job = client_of(context).jobs.restore(job_id)
    _print_result(job, f"{job.id} restored", as_json=as_json)


def _print_state(
    job: Job, transitional: State, target: State, *, wait: bool, as_json: bool
) -> None:
    """Print the state of the job; with `wait`, once it has left the transitional state."""
    if wait and job.state is transitional:
        job = wait_for_state(job, lambda seen: seen.state is not transitional)
    _print_result(job, f"{job.id} is {job.state}", as_json=as_json)
    if wait and job.state is not target:
        raise typer.Exit(ExitStatus.FAILED)


def _queued_again(job: Job, *, watch: bool, as_json: bool) -> None:
    if watch:
        typer.echo(f"{job.id} is {job.state}; Ctrl-C stops watching, not the job.", err=True)
        watch_to_the_end([job], as_json=as_json)
    _print_result(job, f"{job.id} is {job.state}", as_json=as_json)


def _print_result(job: Job, sentence: str, *, as_json: bool) -> None:
    if as_json:
        print_json(job.to_json())
    else:
        typer.echo(sentence)
