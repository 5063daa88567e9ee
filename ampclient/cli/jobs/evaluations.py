"""`ampctl evaluations`: the validation metrics of a job, by epoch."""

import csv
import io
from typing import TYPE_CHECKING, Annotated

import typer

from ampclient._display import formats
from ampclient._display.formats import UNKNOWN
from ampclient.cli.options import AsJson, JobId, job_of
from ampclient.cli.output.tables import print_json, print_table

if TYPE_CHECKING:
    from ampclient._telemetry.evaluations import Evaluations

AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")]


def evaluations(
    context: typer.Context, job_id: JobId, *, as_csv: AsCsv = False, as_json: AsJson = False
) -> None:
    """Print the validation metrics of a job, a row for each evaluation."""
    if as_csv and as_json:
        raise typer.BadParameter("give --csv or --json, not both")
    rows = job_of(context, job_id).evaluations()
    if as_json:
        print_json(rows.to_json())
    elif as_csv:
        typer.echo(_csv(rows), nl=False)
    elif rows:
        _print(rows)
    else:
        typer.echo("The job has not been evaluated.", err=True)


def _print(evaluations: "Evaluations") -> None:
    from ampclient._display.terminal_table import TableColumn

    names = ("epoch", "step", *evaluations.names)
    columns = [TableColumn(name.upper(), align_right=True) for name in names[:2]]
    columns += [TableColumn(formats.printable(name), align_right=True) for name in names[2:]]
    rows = [tuple(_cell(row.get(name)) for name in names) for row in evaluations]
    if evaluations.best is not None:
        columns.append(TableColumn("BEST"))
        marks = ["best" if evaluations.is_best(row) else "" for row in evaluations]
        rows = [(*cells, mark) for cells, mark in zip(rows, marks, strict=True)]
    print_table(columns, rows)


def _cell(value: int | float | None) -> str:
    if value is None:
        return UNKNOWN
    return str(value) if isinstance(value, int) else formats.number(value)


def _csv(rows: "Evaluations") -> str:
    """Epoch, step and metrics; empty cells where a value is missing."""
    text = io.StringIO()
    names = ["epoch", "step", *rows.names]
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
