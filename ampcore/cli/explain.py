"""`python -m ampcore explain`: explain a step of a run on this machine, without any server."""

import json
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from ampcore.cli.context import capture_native_log
from ampcore.cli.exits import BAD_SPEC, exit_with, exits_if_training_fails
from ampcore.cli.local_job import LocalFiles, load_spec, local_files
from ampcore.cli.options import CodeFolder, DataRoot, DatasetFiles, InitFile
from ampspec.data.stored_split import with_split_seed
from ampspec.errors import TrainingError, UnreadableCheckpoint
from ampspec.jobs import JobSpec, SpecValidationError


def explain(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="Output folder of the run.", file_okay=False),
    ],
    step: Annotated[int, typer.Argument(metavar="STEP", min=0, help="The step, from 0.")],
    *,
    file: Annotated[
        str | None,
        typer.Option("--spec", metavar="FILE", help="Job spec, if the folder has no checkpoint."),
    ] = None,
    data_root: DataRoot = None,
    dataset_files: DatasetFiles = None,
    code: CodeFolder = None,
    init: InitFile = None,
    everything: Annotated[bool, typer.Option("--all", help="Show long lists in full.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the explanation as JSON.")] = False,
) -> None:
    """Explain a step of the run in FOLDER: repeat it exactly, and say what it was due to."""
    from ampspec.api.job.explanation_text import explanation_lines

    files = local_files(data_root, dataset_files, code=code, init=init)
    with capture_native_log() as stderr:
        spec = load_spec(file, None, code) if file is not None else _spec_of_run(folder, stderr)
        with exits_if_training_fails(stderr):
            explanation = _explain(spec, folder, step, files, stderr)
    if as_json:
        typer.echo(json.dumps(explanation))
    else:
        typer.echo("\n".join(explanation_lines(explanation, folded=not everything)))


def _spec_of_run(folder: Path, stderr: TextIO) -> JobSpec:
    """The spec in the newest checkpoint of a run; exits if none can be read."""
    from ampcore import checkpoint
    from ampcore.checkpoint.saver import FOLDER

    unreadable: list[UnreadableCheckpoint] = []
    try:
        stored = checkpoint.newest(folder / FOLDER, unreadable.append)
        manifest = None if stored is None else stored.checkpoint.manifest
        spec = None if manifest is None else JobSpec.parse(with_split_seed(manifest.spec))
    except (TrainingError, SpecValidationError) as error:
        exit_with(str(error), BAD_SPEC, stderr)
    if spec is None:
        missing = f"{folder} has no checkpoint; name the job with --spec FILE."
        exit_with(str(unreadable[0]) if unreadable else missing, BAD_SPEC, stderr)
    return spec


def _explain(
    spec: JobSpec, folder: Path, step: int, files: LocalFiles, stderr: TextIO
) -> dict[str, Any]:
    """Explain a step; states the cost first. Raises TrainingError."""
    from ampcore.checkpoint.saver import FOLDER
    from ampcore.training.explain.step_explainer import StepExplainer
    from ampcore.training.jobs.training_job import training_job
    from ampspec.api.job.explanation_text import cost_line

    job = training_job(
        spec,
        data_root=files.data_root,
        datasets=files.datasets,
        bundle=files.code,
        init=files.init,
    )
    explainer = StepExplainer(job, folder / FOLDER, step)
    print(cost_line(explainer.cost.to_json()), file=stderr, flush=True)
    return explainer.run()
