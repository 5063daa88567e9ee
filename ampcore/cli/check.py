"""`python -m ampcore check`: estimate the cost of a job, and check it for known problems."""

import json
from typing import Annotated

import typer

from ampcore.cli.context import capture_native_log
from ampcore.cli.exits import FAILED, exits_if_training_fails
from ampcore.cli.local_job import load_spec, local_files
from ampcore.cli.options import DataRoot, DatasetFiles, ReportAsJson, Settings, SpecFile
from ampspec.telemetry.json_values import json_safe


def check(
    file: SpecFile,
    *,
    settings: Settings = None,
    data_root: DataRoot = None,
    dataset_files: DatasetFiles = None,
    layers: Annotated[
        bool, typer.Option("--layers", help="Also list every layer with its dtypes.")
    ] = False,
    as_json: ReportAsJson = False,
) -> None:
    """Check the job in FILE without training: its cost, layer dtypes and known problems."""
    spec, files = load_spec(file, settings), local_files(data_root, dataset_files)
    with capture_native_log() as stderr, exits_if_training_fails(stderr):
        from ampcore.diagnostics.preflight.model_preflight import preflight_on_device

        report = preflight_on_device(spec, files.data_root, files.datasets).to_json()
    if as_json:
        typer.echo(json.dumps(json_safe(report)))
    else:
        from ampspec.preflight.report_text import report_lines

        typer.echo("\n".join(report_lines(report, layers=layers)))
    if any(finding["severity"] == "error" for finding in report["findings"]):
        raise typer.Exit(FAILED)
