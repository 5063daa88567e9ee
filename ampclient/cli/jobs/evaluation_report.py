"""`ampctl job evaluation-report`: what a trained model gets right and wrong."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ampclient._display import formats
from ampclient._display.formats import UNKNOWN
from ampclient.cli.exit_status import ExitStatus
from ampclient.cli.options import AsJson, JobId, job_of
from ampclient.cli.output.tables import print_fields, print_json, print_table

if TYPE_CHECKING:
    from ampclient._telemetry.evaluation_report import EvaluationReport


def evaluation_report(
    context: typer.Context,
    job_id: JobId,
    *,
    rows: Annotated[int, typer.Option(min=1, help="Mistakes and examples to list.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Print what the trained model gets right and wrong."""
    report = job_of(context, job_id).evaluation_report()
    if report is None:
        typer.echo(
            "The job has no report of its evaluation: it has not succeeded yet, has no validation "
            "examples, or its spec has `train.evaluation_report: false`.",
            err=True,
        )
        raise typer.Exit(ExitStatus.FAILED)
    if as_json:
        print_json(report.document)
        return
    print_fields([("examples", f"{report.examples:,}"), *_metrics(report)])
    for output in report.outputs:
        if len(report.outputs) > 1:
            typer.echo(f"\n{formats.printable(output)}:")
        _print_output(report, output, rows)
    _print_worst(report, rows)


def _metrics(report: "EvaluationReport") -> list[tuple[str, str]]:
    return [(formats.printable(name), _number(value)) for name, value in report.metrics.items()]


def _print_output(report: "EvaluationReport", output: str, rows: int) -> None:
    from ampclient._display.terminal_table import TableColumn

    part = report.part(output)
    curves = {curve["class"]: curve for curve in part.get("curves", [])}

    def name(number: int) -> str:
        return formats.printable(report.class_name(number, output))

    if "classes" in part:
        titles = ("EXAMPLES", "PREDICTED", "PRECISION", "RECALL", "F1", "AUC")
        columns = [
            TableColumn("CLASS"),
            *(TableColumn(title, align_right=True) for title in titles),
        ]
        typer.echo()
        print_table(
            columns,
            [
                (
                    name(row["class"]),
                    f"{row['examples']:,}",
                    f"{row['predicted']:,}",
                    *(_number(row[field]) for field in ("precision", "recall", "f1")),
                    _number(curves.get(row["class"], {}).get("auc")),
                )
                for row in part["classes"]
            ],
        )
    if part.get("confusions"):
        typer.echo()
        columns = [TableColumn("CLASS"), TableColumn("PREDICTED AS")]
        columns.append(TableColumn("EXAMPLES", align_right=True))
        mistakes = [
            (name(true), name(predicted), f"{count:,}")
            for true, predicted, count in part["confusions"][:rows]
        ]
        print_table(columns, mistakes)
    if "numbers" in part:
        fields = ("mean_error", "mae", "rmse", "r2", "largest_error")
        columns = [
            TableColumn(field.upper().replace("_", " "), align_right=True) for field in fields
        ]
        errors = [tuple(_number(figures[field]) for field in fields) for figures in part["numbers"]]
        if len(errors) > 1:
            columns.insert(0, TableColumn("NUMBER"))
            errors = [(str(place), *row) for place, row in enumerate(errors, start=1)]
        typer.echo()
        print_table(columns, errors)
        if any(float(figures["r2"] or 0) < 0 for figures in part["numbers"]):
            typer.echo("R2 is below 0: predicting the mean of the targets would be better.")


def _print_worst(report: "EvaluationReport", rows: int) -> None:
    from ampclient._display.terminal_table import TableColumn

    if not report.worst:
        return
    columns = [TableColumn("WORST ROWS", align_right=True), TableColumn("LOSS", align_right=True)]
    columns += [TableColumn("TARGET"), TableColumn("PREDICTION")]
    typer.echo()
    print_table(
        columns,
        [
            (
                str(example["row"]),
                _number(example["loss"]),
                *(_said(report, example["outputs"], side) for side in ("target", "prediction")),
            )
            for example in report.worst[:rows]
        ],
    )


def _said(report: "EvaluationReport", outputs: Mapping[str, Any], side: str) -> str:
    """The target or the prediction of an example, in a few words."""
    texts = []
    for output, sides in outputs.items():
        value = sides.get(side, {})
        if "class" in value:
            texts.append(formats.printable(report.class_name(value["class"], output)))
        elif "text" in value:
            texts.append(formats.printable(value["text"]))
        elif numbers := value.get("labels") or value.get("numbers"):
            texts.append(", ".join(_number(number) for number in numbers))
    return "; ".join(texts) or UNKNOWN


def _number(value: Any) -> str:
    if value is None:
        return UNKNOWN
    return value if isinstance(value, str) else formats.number(value)
