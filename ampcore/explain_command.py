"""`python -m ampcore explain`: explain a step of a run on this machine, without any server."""

from pathlib import Path
from typing import Any, TextIO

from ampcore import checkpoint
from ampcore.api.explanation_text import cost_line
from ampcore.checkpoint.saver import FOLDER
from ampcore.errors import UnreadableCheckpoint
from ampcore.spec import JobSpec


def spec_of_run(folder: Path) -> JobSpec | None:
    """The spec of a run, from the newest checkpoint in its output folder; None without one.

    Raises:
        UnreadableCheckpoint: The folder of checkpoints cannot be read.
        SpecValidationError: The checkpoint is not that of a job.
    """
    unreadable: list[UnreadableCheckpoint] = []
    found = checkpoint.newest(folder / FOLDER, unreadable.append)
    if found is None:
        if unreadable:
            raise unreadable[0]
        return None
    return JobSpec.parse(found.checkpoint.manifest.spec)


def explain_run(
    spec: JobSpec,
    folder: Path,
    step: int,
    *,
    data_root: Path | None,
    datasets: dict[str, Path],
    code: Path | None,
    init: Path | None,
    stderr: TextIO,
) -> dict[str, Any]:
    """Explain a step; states the cost first. Raises TrainingError."""
    from ampcore.train.explain import StepExplainer
    from ampcore.train.run_setup import training_job

    job = training_job(spec, data_root=data_root, datasets=datasets, bundle=code, init=init)
    explainer = StepExplainer(job, folder / FOLDER, step)
    print(cost_line(explainer.cost.to_json()), file=stderr, flush=True)
    return explainer.run()
