"""`ampctl list`, `get` and `cancel`."""

from typing import Annotated

import typer

from ampclient.cli.connect import AsJson, JobId, client_of
from ampclient.cli.output import print_job, print_jobs, print_json
from ampcore.spec import State
from ampcore.spec.problems import closest


def _state(text: str) -> State:
    if text in list(State):
        return State(text)
    word = closest(text, State)
    hint = f" Did you mean '{word}'?" if word else ""
    raise typer.BadParameter(f"Expected one of {', '.join(State)}; received {text!r}.{hint}")


States = Annotated[
    list[State] | None,
    typer.Option(
        "--state",
        parser=_state,
        metavar="STATE",
        help="Only jobs in this state, such as running or failed. May be repeated.",
        show_default=False,
    ),
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="At most so many jobs.")]


def list_(
    context: typer.Context, states: States = None, limit: Limit = 50, as_json: AsJson = False
) -> None:
    """List jobs, newest first."""
    # One more than is shown tells whether there are more.
    found = list(client_of(context).jobs.list(state=states, limit=limit + 1))
    jobs = found[:limit]
    if as_json:
        print_json([job.to_json() for job in jobs])
    else:
        print_jobs(jobs)
    if len(found) > limit:
        typer.echo(f"Only the newest are shown ({limit}); --limit N shows more.", err=True)


def get(context: typer.Context, job_id: JobId, as_json: AsJson = False) -> None:
    """Show one job."""
    job = client_of(context).jobs.get(job_id)
    if as_json:
        print_json(job.to_json())
    else:
        print_job(job)


def cancel(
    context: typer.Context,
    job_id: JobId,
    wait: Annotated[bool, typer.Option("--wait", help="Return when the job has ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """Cancel a job; with --wait, exit 0 only once its process is gone."""
    job = client_of(context).jobs.get(job_id).cancel()
    if wait and not job.state.is_terminal:
        typer.echo(f"{job.id} is {job.state}; waiting for its process to end …", err=True)
        job = job.wait()
    if as_json:
        print_json(job.to_json())
    else:
        typer.echo(f"{job.id} is {job.state}")
    if wait and job.state != State.CANCELLED:
        raise typer.Exit(1)
