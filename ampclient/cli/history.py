"""`ampctl steps`, `events`, `attempts` and `logs`: what a job recorded."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from ampclient.cli.connect import AsJson, JobId, StepFormat, job_of
from ampclient.cli.output import print_json
from ampclient.cli.record_output import print_attempts, print_events, print_log
from ampclient.cli.step_options import Attempt, Columns, End, MaxPoints, Start, names_in
from ampclient.cli.watch import detaching


def steps(
    context: typer.Context,
    job_id: JobId,
    *,
    start: Start = None,
    end: End = None,
    columns: Columns = None,
    attempt: Attempt = None,
    max_points: MaxPoints = None,
    format_: Annotated[
        StepFormat, typer.Option("--format", "-f", help="How to write them.")
    ] = StepFormat.TABLE,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Print the values of every step of a job, or of all of them in few points."""
    from ampclient.cli.step_output import Table, terminal_width, write_steps

    wanted: dict[str, Any] = {"start": start, "end": end, "attempt": attempt}
    wanted["columns"] = names_in(columns)
    job = job_of(context, job_id)
    if not as_json and format_.is_of_the_server:
        for piece in job.iter_export(format_, max_points=max_points, **wanted):
            typer.echo(piece, nl=False)
        return
    tables: Iterable[Table]
    tables = [job.sample(max_points, **wanted)] if max_points else job.iter_steps(**wanted)
    # Who names columns gets them all, however wide they are.
    width = terminal_width() if columns is None else None
    write_steps(tables, as_json=as_json or format_ is StepFormat.JSON, width=width)


def events(context: typer.Context, job_id: JobId, as_json: AsJson = False) -> None:
    """Print a job's ledger: changes of state, overflows, growth of the scale, evaluations."""
    entries = job_of(context, job_id).events()
    if as_json:
        print_json([event.to_json() for event in entries])
    else:
        print_events(entries)


def attempts(context: typer.Context, job_id: JobId, as_json: AsJson = False) -> None:
    """Print each time that a worker took a job, and how that ended."""
    found = job_of(context, job_id).attempts()
    if as_json:
        print_json([attempt.to_json() for attempt in found])
    elif found:
        print_attempts(found)
    else:
        typer.echo("No worker has taken the job yet.", err=True)


def logs(
    context: typer.Context,
    job_id: JobId,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the job ends.")
    ] = False,
    attempt: Attempt = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON document a line.")] = False,
) -> None:
    """Print what a job's process printed; with -f, exit 0 only if the job succeeds."""
    job = job_of(context, job_id)
    entries = job.logs(follow=follow, attempt=attempt)
    if not follow:
        if not print_log(entries, as_json=as_json):
            typer.echo("Nothing has been printed yet.", err=True)
        return
    with detaching(f"The job goes on. Follow it again with: ampctl logs -f {job.id}"):
        print_log(entries, as_json=as_json)
        ended = job.refresh()
    if ended.state != "succeeded":
        why = f": {ended.message}" if ended.message else "."
        typer.echo(f"{ended.id} is {ended.state}{why}", err=True)
        raise typer.Exit(1)
