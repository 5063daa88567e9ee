"""`ampctl artifacts` and `download`: the files that a job has left."""

from pathlib import Path
from typing import Annotated

import typer

from ampclient.cli.bars import bars
from ampclient.cli.connect import AsJson, JobId, job_of
from ampclient.cli.output import print_json
from ampclient.cli.record_output import print_artifacts
from ampclient.cli.watch import detaching


def artifacts(context: typer.Context, job_id: JobId, as_json: AsJson = False) -> None:
    """List the files that a job has left: checkpoints, the model, reports."""
    found = job_of(context, job_id).artifacts()
    if as_json:
        print_json([artifact.to_json() for artifact in found])
    elif found:
        print_artifacts(found)
    else:
        typer.echo("The job has left no files yet.", err=True)


def download(
    context: typer.Context,
    job_id: JobId,
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="[PATH]",
            help="A file or a folder that `ampctl artifacts` shows; left out: all.",
            show_default=False,
        ),
    ] = None,
    *,
    folder: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where to put them.")
    ] = Path(),
    as_json: AsJson = False,
) -> None:
    """Download files of a job and check their SHA-256; what broke off goes on where it stopped."""
    job = job_of(context, job_id)
    again = "What has come is kept; the same command goes on with it."
    with detaching(again), bars() as show:
        places = job.download(
            path, to=folder, report=lambda file, size: show(file.path, size, file.size_bytes)
        )
    if as_json:
        print_json([str(place) for place in places])
        return
    for place in places:
        typer.echo(place)
    if not places:
        typer.echo("The job has left no files yet.", err=True)
