"""`python -m ampcore profile`: show where the time of some steps goes."""

import json
import threading
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from ampcore.cli.context import capture_native_log, interruptible
from ampcore.cli.exits import FAILED, INTERRUPTED, exit_with, exits_if_training_fails
from ampcore.cli.local_job import LocalFiles, load_spec, local_files
from ampcore.cli.options import CodeFolder, DataRoot, DatasetFiles, ReportAsJson, Settings, SpecFile
from ampspec.jobs import JobSpec
from ampspec.telemetry.json_values import json_safe


def profile(
    file: SpecFile,
    *,
    start: Annotated[
        int, typer.Option(min=0, help="The first profiled step; the first two are left out.")
    ] = 10,
    steps: Annotated[int, typer.Option(min=1, max=200, help="How many steps to profile.")] = 10,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder for the report and the traces.", file_okay=False),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="The longest operations to list.")] = 20,
    settings: Settings = None,
    data_root: DataRoot = None,
    dataset_files: DatasetFiles = None,
    code: CodeFolder = None,
    as_json: ReportAsJson = False,
) -> None:
    """Train the first steps of the job in FILE, and show where their time goes.

    No model is saved.
    """
    from ampcore.profile.report_text import report_lines

    spec = load_spec(file, settings, code)
    files = local_files(data_root, dataset_files, code=code)
    with interruptible() as stop, capture_native_log() as stderr:
        report = _profile(spec, start, steps, files, output, stop=stop, stderr=stderr)
    if as_json:
        typer.echo(json.dumps(json_safe(report)))
    else:
        typer.echo("\n".join(report_lines(report, rows=rows)))
        if output is not None:
            typer.echo(f"The report and the traces are in {output}.")


def _profile(
    spec: JobSpec,
    start: int,
    steps: int,
    files: LocalFiles,
    output: Path | None,
    *,
    stop: threading.Event,
    stderr: TextIO,
) -> dict[str, Any]:
    """The report; exits if there is none."""
    from ampcore.profile.analysis_process import ProfileFailed
    from ampcore.training.profile_steps import profile_steps

    try:
        with exits_if_training_fails(stderr):
            return profile_steps(
                spec,
                start=start,
                steps=steps,
                output=output,
                data_root=files.data_root,
                datasets=files.datasets,
                bundle=files.code,
                should_stop=stop.is_set,
            )
    except ProfileFailed as error:
        exit_with(str(error), INTERRUPTED if stop.is_set() else FAILED, stderr)
