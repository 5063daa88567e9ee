"""`ampctl artifacts` and `download`: the files of a job."""

from operator import attrgetter
from pathlib import Path
from typing import Annotated

import typer

from ampclient.cli.jobs.watch import detach_on_interrupt
from ampclient.cli.options import AsJson, JobId, job_of
from ampclient.cli.output.download_bar import download_bar
from ampclient.cli.output.formats import Output, OutputFormat, chosen, print_items
from ampclient.cli.output.record_output import print_artifacts
from ampclient.cli.output.tables import print_json


def artifacts(
    context: typer.Context,
    job_id: JobId,
    output: Output = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> None:
    """List the files of a job: checkpoints, model, reports."""
    print_items(
        job_of(context, job_id).artifacts(),
        chosen(output, as_json=as_json),
        print_artifacts,
        name=attrgetter("path"),
        empty="The job has no files yet.",
    )


def download(
    context: typer.Context,
    job_id: JobId,
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="[PATH]",
            help="A file or folder listed by `ampctl job artifacts` (default: all).",
            show_default=False,
        ),
    ] = None,
    *,
    folder: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to download to.")
    ] = Path(),
    as_json: AsJson = False,
) -> None:
    """Download files of a job and verify their SHA-256; interrupted downloads resume."""
    job = job_of(context, job_id)
    again = "Partial downloads are kept; run the same command to resume."
    with detach_on_interrupt(again), download_bar() as show:
        saved_paths = job.download(path, to=folder, on_progress=show)
    if as_json:
        print_json([str(saved) for saved in saved_paths])
        return
    for saved in saved_paths:
        typer.echo(saved)
    if not saved_paths:
        typer.echo("The job has no files yet.", err=True)
