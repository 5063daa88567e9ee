"""`ampctl steps` and `events`: what a job recorded."""

from typing import Annotated

import typer

from ampclient.cli.connect import AsJson, JobId, StepFormat, client_of
from ampclient.cli.output import print_events, print_json


def steps(
    context: typer.Context,
    job_id: JobId,
    *,
    start: Annotated[
        int | None, typer.Option(min=0, help="First step.", show_default=False)
    ] = None,
    end: Annotated[
        int | None, typer.Option(min=0, help="Step to stop before.", show_default=False)
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Columns, such as loss,skipped.", show_default=False),
    ] = None,
    format_: Annotated[
        StepFormat, typer.Option("--format", "-f", help="How to write them.")
    ] = StepFormat.TABLE,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Print the values of every step of a job."""
    from ampclient.cli.step_output import terminal_width, write_steps

    names = None if columns is None else [n.strip() for n in columns.split(",") if n.strip()]
    if names is not None and not set(names) - {"step"}:
        raise typer.BadParameter("expected names such as loss,skipped", param_hint="--columns")
    job = client_of(context).jobs.get(job_id)
    blocks = job.iter_steps(start=start, end=end, columns=names)
    # Who names columns gets them all, however wide they are.
    width = terminal_width() if names is None else None
    write_steps(blocks, StepFormat.JSON if as_json else format_, width=width)


def events(context: typer.Context, job_id: JobId, as_json: AsJson = False) -> None:
    """Print a job's ledger: changes of state, overflows, growth of the scale, evaluations."""
    entries = client_of(context).jobs.get(job_id).events()
    if as_json:
        print_json([event.to_json() for event in entries])
    else:
        print_events(entries)
