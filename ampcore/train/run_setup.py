"""What a run needs before its first step: its kind of job, and its data on the device."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import keras

from ampcore.allocation_errors import out_of_memory
from ampcore.data import Dataset
from ampcore.distributed import Replicas, SingleReplica
from ampcore.precision.float16_on_cpu import without_op_fusion
from ampcore.precision.tensor_float32 import tensor_float32
from ampcore.train.bundle_job import BundleJob
from ampcore.train.feed import feed_for
from ampcore.train.job import SpecJob, TrainingJob
from ampcore.train.plan import Plan
from ampcore.train.run_context import RunContext
from ampspec.errors import TrainingError
from ampspec.jobs import JobSpec
from ampspec.models.model import Bundle
from ampspec.precision.devices import DeviceInfo
from ampspec.training.run import RunSpec, micro_batches

RESIDENT_SHARE: Final = 0.25
"""The share of a device's memory that training examples may take; larger data is streamed."""


def run_context(
    job: TrainingJob,
    dataset: Dataset,
    device: DeviceInfo,
    *,
    is_replay: bool = False,
    replicas: Replicas | None = None,
) -> RunContext:
    """The context of a run on a device. Without replicas one process trains on all of a step."""
    spec = job.spec
    replicas = replicas or SingleReplica()
    examples = spec.data.batch_size * micro_batches(spec)
    plan = Plan.from_spec(spec.train, dataset.steps_per_epoch(examples))
    memory_bytes = device.memory_bytes
    feed = feed_for(
        dataset.train,
        examples,
        shuffle=spec.data.shuffle,
        seed=spec.train.seed,
        budget_bytes=RESIDENT_SHARE * memory_bytes if memory_bytes else float("inf"),
        part=(replicas.rank, replicas.size),
    )
    return RunContext(job.for_replicas(replicas), dataset, plan, feed, device, is_replay, replicas)


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
            raise TypeError("Trainer: init is for a JobSpec; an own model has its weights already.")
        return job
    hint = "; train a Keras model with Trainer.from_keras" if isinstance(job, keras.Model) else ""
    raise TypeError(f"Trainer: expected a JobSpec; received {type(job).__name__}{hint}.")


@contextmanager
def device_settings(spec: RunSpec, device: DeviceInfo) -> Iterator[None]:
    """A context in which the device computes as a spec says: in TF32 or not, and in float16."""
    with (
        without_op_fusion(spec.precision, device),
        tensor_float32(allowed=spec.precision.tf32),
    ):
        yield


@contextmanager
def memory_errors() -> Iterator[None]:
    """A context that turns the errors of allocations that failed into OutOfMemory."""
    try:
        yield
    except TrainingError:
        raise
    except Exception as error:
        if (full := out_of_memory(error)) is None:
            raise
        raise full from error
