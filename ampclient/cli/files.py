"""`ampctl artifacts` and `download`: the files that a job has left."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ampclient.cli.connect import AsJson, JobId, client_of
from ampclient.cli.output import print_json
from ampclient.cli.record_output import print_artifacts
from ampclient.cli.watch import detaching

if TYPE_CHECKING:
    from ampclient.downloads import Report
    from ampclient.views import Artifact


def artifacts(context: typer.Context, job_id: JobId, as_json: AsJson = False) -> None:
    """List the files that a job has left: checkpoints, the model, reports."""
    found = client_of(context).jobs.get(job_id).artifacts()
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
    job = client_of(context).jobs.get(job_id)
    again = "What has come is kept; the same command goes on with it."
    with detaching(again), _bars() as report:
        places = job.download(path, to=folder, report=report)
    if as_json:
        print_json([str(place) for place in places])
        return
    for place in places:
        typer.echo(place)
    if not places:
        typer.echo("The job has left no files yet.", err=True)


@contextmanager
def _bars() -> "Iterator[Report]":
    """A bar for the file that is coming, on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bars:
        task = bars.add_task("")

        def report(artifact: "Artifact", size_bytes: int) -> None:
            bars.update(
                task, description=artifact.path, total=artifact.size_bytes, completed=size_bytes
            )

        yield report
