"""The job that a trainer is given: a spec, custom code, or another kind of job."""

from collections.abc import Mapping
from pathlib import Path

import keras

from ampcore.training.jobs.bundle_job import BundleJob
from ampcore.training.jobs.job import SpecJob, TrainingJob
from ampspec.jobs import JobSpec
from ampspec.models.model import Bundle


def training_job(
    job: object,
    *,
    data_root: Path | None = None,
    datasets: Mapping[str, Path] | None = None,
    bundle: Path | None = None,
    init: Path | None = None,
) -> TrainingJob:
    """The job of a spec, or the given one. Raises TypeError for anything else."""
    if isinstance(job, JobSpec):
        if isinstance(job.model, Bundle):
            return BundleJob(job, data_root, datasets or {}, bundle, init=init)
        return SpecJob(job, data_root, datasets or {}, init=init)
    if isinstance(job, TrainingJob):
        if init is not None:
            raise TypeError("Trainer: init is for a JobSpec; your model has its weights already.")
        return job
    hint = "; train a Keras model with Trainer.from_keras" if isinstance(job, keras.Model) else ""
    raise TypeError(f"Trainer: expected a JobSpec; received {type(job).__name__}{hint}.")
