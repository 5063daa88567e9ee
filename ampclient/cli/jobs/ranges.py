"""`ampctl ranges`: what a number format would do to the layers of a job."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ampclient._display import formats
from ampclient._display.formats import UNKNOWN
from ampclient.cli.options import AsJson, End, JobId, Start, job_of
from ampclient.cli.output.tables import print_json, print_table

if TYPE_CHECKING:
    from ampspec.api.job.ranges import FormatReport, TensorFormatReport


class ReportNumberFormat(StrEnum):
    """The number formats of the reports."""

    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT8_E4M3 = "float8_e4m3fn"
    FLOAT8_E5M2 = "float8_e5m2"


def ranges(
    context: typer.Context,
    job_id: JobId,
    *,
    format_: Annotated[
        ReportNumberFormat, typer.Option("--format", "-f", help="The number format.")
    ] = ReportNumberFormat.FLOAT16,
    start: Start = None,
    end: End = None,
    limit: Annotated[int, typer.Option(min=1, help="The maximum number of rows.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Print the layers that a number format would harm most, and what repairs them."""
    samples = job_of(context, job_id).ranges(format_.value, start=start, end=end)
    if as_json:
        print_json(samples.to_json())
    elif samples.report is not None:
        _print(samples.report, limit)
    else:
        typer.echo(
            "The job has no samples of ranges. Short jobs are sampled only with "
            "--set telemetry.ranges.max_time_share=null.",
            err=True,
        )


def _print(report: "FormatReport", limit: int) -> None:
    from ampclient._display.terminal_table import TableColumn

    columns = [
        TableColumn("LAYER", min_width=8),
        TableColumn("TENSOR"),
        TableColumn("DTYPE", drop_order=2),
        TableColumn("SCALE", align_right=True, drop_order=3),
        TableColumn("UNDERFLOW", align_right=True),
        TableColumn("OVERFLOW", align_right=True),
        TableColumn("ERROR", align_right=True),
        TableColumn("SCALES THAT SUIT", drop_order=1),
        TableColumn("PROBLEM"),
    ]
    print_table(columns, [_row(tensor) for tensor in report.tensors[:limit]])
    typer.echo(f"\n{formats.printable(report.sentence)}")
    if report.overrides:
        typer.echo("\nAdd to precision.overrides:")
    for override in report.overrides:
        layers = formats.printable(override.layers)
        typer.echo(f"  - {{layers: '{layers}', dtype: {override.dtype}}}")
    if report.loss_scale is not None:
        fields = ", ".join(f"{name}: {value}" for name, value in report.loss_scale.items())
        typer.echo(f"\nSet loss_scale: {{{formats.printable(fields)}}}")


def _row(tensor: "TensorFormatReport") -> tuple[str, ...]:
    is_gradient = tensor.tensor != "activations"
    suits = UNKNOWN
    if is_gradient:
        suits = "none" if tensor.lowest is None else f"2^{tensor.lowest} to 2^{tensor.highest}"
    return (
        formats.printable(tensor.layer),
        formats.printable(tensor.tensor.replace("_", " ")),
        formats.printable(tensor.dtype),
        f"2^{tensor.scale_exponent}" if is_gradient else UNKNOWN,
        formats.percent(tensor.underflow),
        formats.percent(tensor.overflow),
        formats.number(tensor.error, 2),
        suits,
        formats.printable(tensor.problem or _scale_problem(tensor)),
    )


def _scale_problem(tensor: "TensorFormatReport") -> str:
    """What the loss scale of the last sample does to gradients that another one suits."""
    if tensor.lowest is None or tensor.highest is None:
        return ""
    if tensor.scale_exponent > tensor.highest:
        return "scale too high"
    return "scale too low" if tensor.scale_exponent < tensor.lowest else ""
