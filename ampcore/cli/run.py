"""`python -m ampcore run`: train a job on this machine."""

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from ampcore.cli.context import capture_native_log, interruptible
from ampcore.cli.exits import BAD_SPEC, FAILED, INTERRUPTED, exit_with, exits_if_training_fails
from ampcore.cli.local_job import LocalFiles, load_spec, local_files
from ampcore.cli.options import CodeFolder, DataRoot, DatasetFiles, InitFile, Settings, SpecFile
from ampcore.distributed import Cluster, cluster_from_environment
from ampspec.documents.assignments import with_values
from ampspec.documents.text import plural
from ampspec.errors import TrainingError
from ampspec.jobs import JobSpec
from ampspec.telemetry.json_values import json_safe


def run(
    file: SpecFile,
    *,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder for the trained model and the checkpoints.", file_okay=False),
    ] = None,
    settings: Settings = None,
    data_root: DataRoot = None,
    dataset_files: DatasetFiles = None,
    code: CodeFolder = None,
    init: InitFile = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume from the newest checkpoint in --output.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as one line of JSON.")
    ] = False,
) -> None:
    """Train the job in FILE on this machine."""
    if resume and output is None:
        exit_with("--resume needs --output DIR, the output folder of the run to resume.", BAD_SPEC)
    spec = load_spec(file, settings, code)
    files = local_files(data_root, dataset_files, code=code, init=init)
    cluster = _ranks_of_program()
    spec = _with_ranks_of(cluster, spec)
    with interruptible() as stop, capture_native_log() as stderr:
        summary, model_file = _train(
            spec, files, output, cluster, resume=resume, stop=stop, stderr=stderr
        )
    if cluster is not None and cluster.rank > 0:
        return  # rank 0 prints the summary
    if as_json:
        typer.echo(json.dumps(json_safe(summary)))
    else:
        from ampcore.cli.run_text import summary_lines

        typer.echo("\n".join(summary_lines(summary, model_file)))
    if model_file is None:
        typer.echo("The model was not saved; use --output DIR to save it.", err=True)


def _ranks_of_program() -> Cluster | None:
    """The ranks; ends the command if they cannot be found."""
    try:
        return cluster_from_environment()
    except ValueError as error:
        exit_with(str(error), BAD_SPEC)
    except TrainingError as error:
        exit_with(f"{error.reason}: {error}", FAILED)


def _with_ranks_of(cluster: Cluster | None, spec: JobSpec) -> JobSpec:
    """The spec for as many ranks as were launched, if it names no number itself."""
    if cluster is None or spec.runtime.ranks > 1 or spec.runtime.elastic is not None:
        return spec
    return JobSpec.parse(with_values(spec.to_json(), {"runtime.devices": cluster.size}))


def _train(
    spec: JobSpec,
    files: LocalFiles,
    output: Path | None,
    cluster: Cluster | None,
    *,
    resume: bool,
    stop: threading.Event,
    stderr: TextIO,
) -> tuple[dict[str, Any], str | None]:
    """Train; returns the summary and the path of the model, and exits if the run fails."""
    from ampcore.cli.run_text import RunProgress
    from ampcore.training import Trainer

    try:
        with exits_if_training_fails(stderr), RunProgress(spec.name, stderr) as progress:
            trainer = Trainer(
                spec,
                files.data_root,
                output,
                resume=resume,
                datasets=files.datasets,
                bundle=files.code,
                init=files.init,
                cluster=cluster and replace(cluster, timeout_s=spec.runtime.exchange.timeout_s),
            )
            result = trainer.run(progress.block, progress.event, stop.is_set)
    except OSError as error:
        exit_with(f"The model could not be saved: {error}", FAILED, stderr)
    if result.stopped:
        advice = "no model was saved." if output is None else "continue with --resume."
        message = f"Interrupted after {plural(result.steps, 'step')}; {advice}"
        exit_with(message, INTERRUPTED, stderr)
    summary = result.to_json()
    if sentences := progress.range_sentences:
        summary["ranges"] = sentences
    return summary, str(result.model_file) if result.model_file else None
