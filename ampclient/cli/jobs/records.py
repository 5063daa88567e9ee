"""`ampctl steps`, `events`, `attempts` and `allocations`: what a job recorded."""

from collections.abc import Iterable
from operator import attrgetter
from typing import Annotated, Any

import typer

from ampclient.cli.options import (
    AsJson,
    Attempt,
    Columns,
    End,
    JobId,
    MaxPoints,
    Start,
    StepFormat,
    job_of,
    split_names,
)
from ampclient.cli.output.formats import Output, OutputFormat, chosen, print_items
from ampclient.cli.output.record_output import (
    print_allocations,
    print_attempts,
    print_events,
)


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
        StepFormat, typer.Option("--format", "-f", help="Output format.")
    ] = StepFormat.TABLE,
    as_json: Annotated[bool, typer.Option("--json", help="Same as --format json.")] = False,
) -> None:
    """Print the telemetry of every step of a job, or a summary with --max-points."""
    from ampclient.cli.output.step_output import StepTable, terminal_width, write_steps

    step_range: dict[str, Any] = {"start": start, "end": end, "attempt": attempt}
    step_range["columns"] = split_names(columns)
    job = job_of(context, job_id)
    if not as_json and format_.is_written_by_server:
        for chunk in job.iter_export(format_, max_points=max_points, **step_range):
            typer.echo(chunk, nl=False)
        return
    tables: Iterable[StepTable]
    tables = [job.sample(max_points, **step_range)] if max_points else job.iter_steps(**step_range)
    # Columns that are named explicitly are all printed, however wide they are.
    width = terminal_width() if columns is None else None
    write_steps(tables, as_json=as_json or format_ is StepFormat.JSON, width=width)


def events(
    context: typer.Context,
    job_id: JobId,
    *,
    show_all: Annotated[
        bool, typer.Option("--all", help="Print each of many near-equal events in a row.")
    ] = False,
    output: Output = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> None:
    """Print a job's event log: state changes, overflows, loss-scale growth, evaluations.

    Three or more events in a row that differ in their numbers alone are one row.
    """
    print_items(
        job_of(context, job_id).events(),
        chosen(output, as_json=as_json),
        lambda events: print_events(events, show_all=show_all),
        name=attrgetter("seq"),
    )


def attempts(
    context: typer.Context,
    job_id: JobId,
    output: Output = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> None:
    """List the attempts at a job and their outcomes."""
    print_items(
        job_of(context, job_id).attempts(),
        chosen(output, as_json=as_json),
        print_attempts,
        name=attrgetter("attempt"),
        empty="No worker has started the job yet.",
    )


def allocations(
    context: typer.Context,
    job_id: JobId,
    output: Output = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> None:
    """List what a batch system such as Slurm was asked for to run a job, oldest first."""
    print_items(
        job_of(context, job_id).allocations(),
        chosen(output, as_json=as_json),
        print_allocations,
        name=attrgetter("name"),
        empty="No batch system was asked to run the job.",
    )
