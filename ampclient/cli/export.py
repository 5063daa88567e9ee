"""`ampctl export`: the steps of a job as a file."""

import sys
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from ampclient import formats
from ampclient.cli.bars import bars
from ampclient.cli.connect import AsJson, JobId, job_of
from ampclient.cli.output import print_json
from ampclient.cli.step_options import Attempt, Columns, End, MaxPoints, Start, names_in
from ampclient.cli.watch import detaching
from ampclient.job import Job

STANDARD_OUTPUT: Final = "-"


class ExportFormat(StrEnum):
    """In which form a file is written."""

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
        ExportFormat, typer.Option("--format", "-f", help="What to write.")
    ] = ExportFormat.CSV,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="A file, or a folder to put it into (for tensorboard a folder); "
            "-: standard output.",
        ),
    ] = ".",
    start: Start = None,
    end: End = None,
    columns: Columns = None,
    attempt: Attempt = None,
    max_points: MaxPoints = None,
    as_json: AsJson = False,
) -> None:
    """Write the steps of a job into a file: for pandas, a spreadsheet, DuckDB or TensorBoard."""
    wanted: dict[str, Any] = {
        "start": start,
        "end": end,
        "columns": names_in(columns),
        "attempt": attempt,
        "max_points": max_points,
    }
    _check(output, format_, as_json=as_json)
    job = job_of(context, job_id)
    with detaching("A part is never kept; the same command begins from the start."):
        if output == STANDARD_OUTPUT:
            for piece in job.iter_export(format_, **wanted):
                typer.echo(piece, nl=False)
        else:
            _write(job, output, format_, wanted, as_json=as_json)


def _check(output: str, format_: ExportFormat, *, as_json: bool) -> None:
    if output != STANDARD_OUTPUT:
        return
    if as_json:
        raise typer.BadParameter("--json tells about a file; --output - makes none")
    if sys.stdout.isatty() and not format_.is_text:
        raise typer.BadParameter(f"{format_} is nothing to read; name a file", param_hint="-o")


def _write(
    job: Job, output: str, format_: ExportFormat, wanted: dict[str, Any], *, as_json: bool
) -> None:
    """Write the file, then say where it is and how large."""
    with bars() as show:
        place = job.export(
            output, format_, **wanted, report=lambda size: show(f"{format_}", size, None)
        )
    size_bytes = place.stat().st_size
    if as_json:
        print_json({"path": str(place), "format": format_, "size_bytes": size_bytes})
    else:
        typer.echo(f"{place} ({formats.size(size_bytes)})")
