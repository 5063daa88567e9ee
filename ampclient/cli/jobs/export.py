"""`ampctl export`: write the steps of a job to a file."""

import sys
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from ampclient._display import formats
from ampclient._job.job import Job
from ampclient.cli.jobs.watch import detach_on_interrupt
from ampclient.cli.options import (
    AsJson,
    Attempt,
    Columns,
    End,
    JobId,
    MaxPoints,
    Start,
    job_of,
    split_names,
)
from ampclient.cli.output.download_bar import download_bar
from ampclient.cli.output.tables import print_json

STANDARD_OUTPUT: Final = "-"


class ExportFormat(StrEnum):
    """The format of an exported file."""

    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"
    NDJSON = "ndjson"
    TENSORBOARD = "tensorboard"

    @property
    def is_text(self) -> bool:
        """Whether a terminal can show it."""
        return self in (ExportFormat.CSV, ExportFormat.NDJSON)


def export(
    context: typer.Context,
    job_id: JobId,
    *,
    format_: Annotated[
        ExportFormat, typer.Option("--format", "-f", help="File format.")
    ] = ExportFormat.CSV,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="Output file, or folder (tensorboard needs a folder); - for standard output.",
        ),
    ] = ".",
    start: Start = None,
    end: End = None,
    columns: Columns = None,
    attempt: Attempt = None,
    max_points: MaxPoints = None,
    as_json: AsJson = False,
) -> None:
    """Export the steps of a job to a file, for pandas, spreadsheets, DuckDB or TensorBoard."""
    step_range: dict[str, Any] = {
        "start": start,
        "end": end,
        "columns": split_names(columns),
        "attempt": attempt,
        "max_points": max_points,
    }
    _check(output, format_, as_json=as_json)
    job = job_of(context, job_id)
    with detach_on_interrupt("No partial file is kept; run the same command to start again."):
        if output == STANDARD_OUTPUT:
            for chunk in job.iter_export(format_, **step_range):
                typer.echo(chunk, nl=False)
        else:
            _write(job, output, format_, step_range, as_json=as_json)


def _check(output: str, format_: ExportFormat, *, as_json: bool) -> None:
    if output != STANDARD_OUTPUT:
        return
    if as_json:
        raise typer.BadParameter(
            "--json describes the file written; it cannot be used with --output -"
        )
    if sys.stdout.isatty() and not format_.is_text:
        raise typer.BadParameter(f"{format_} is a binary format; name a file", param_hint="-o")


def _write(
    job: Job, output: str, format_: ExportFormat, step_range: dict[str, Any], *, as_json: bool
) -> None:
    """Write the file, then print its path and size."""
    with download_bar() as show:
        saved = job.export(output, format_, **step_range, on_progress=show)
    size_bytes = saved.stat().st_size
    if as_json:
        print_json({"path": str(saved), "format": format_, "size_bytes": size_bytes})
    else:
        typer.echo(f"{saved} ({formats.size(size_bytes)})")
