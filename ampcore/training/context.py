"""RunContext: job, data, plan and device of a run; `build_runner` makes its StepRunner."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Self

from ampcore import precision
from ampcore.data import Dataset
from ampcore.data.feed import TrainingFeed, feed_for
from ampcore.diagnostics.input_statistics import InputStatistics
from ampcore.distributed import Communicator, SingleRank
from ampcore.training.jobs.job import TrainingJob
from ampcore.training.step.plan import Plan
from ampcore.training.step.step_runner import StepRunner
from ampcore.training.step.synchronized_batch_norm import check_synchronizable
from ampcore.training.step.train_step import TrainStep
from ampspec.errors import InvalidModel
from ampspec.precision.devices import DeviceInfo
from ampspec.training.run import RunSpec, micro_batches

RESIDENT_SHARE: Final = 0.25
"""The share of a device's memory that training examples may take; larger data is streamed."""


@dataclass(frozen=True)
class RunContext:
    """The parts of a run that do not depend on its precision."""

    job: TrainingJob
    dataset: Dataset
    plan: Plan
    feed: TrainingFeed
    device: DeviceInfo
    is_replay: bool = False
    """Whether steps are repeated to look at one of them: nothing is evaluated or explained."""
    communicator: Communicator = field(default_factory=SingleRank)
    """The processes that train the job together."""

    @classmethod
    def of(
        cls,
        job: TrainingJob,
        dataset: Dataset,
        device: DeviceInfo,
        communicator: Communicator,
        *,
        is_replay: bool = False,
    ) -> Self:
        """The context of a job on a device with its data loaded."""
        spec = job.spec
        examples = spec.data.batch_size * micro_batches(spec)
        memory_bytes = device.memory_bytes
        feed = feed_for(
            dataset.train,
            examples,
            shuffle=spec.data.shuffle,
            seed=spec.train.seed,
            budget_bytes=RESIDENT_SHARE * memory_bytes if memory_bytes else float("inf"),
            part=(communicator.rank, communicator.size),
        )
        plan = Plan.from_spec(spec.train, dataset.steps_per_epoch(examples))
        return cls(
            job.for_ranks(communicator), dataset, plan, feed, device, is_replay, communicator
        )

    @property
    def spec(self) -> RunSpec:
        """The settings of the run."""
        return self.job.spec

    @property
    def accumulate(self) -> int:
        """The micro-batches of a step on this rank."""
        return micro_batches(self.spec) // self.communicator.size

    @cached_property
    def input_statistics(self) -> InputStatistics | None:
        """The statistics of the inputs of all training examples; None if they cannot be known."""
        return InputStatistics.of(self.dataset.train)

    def build_runner(self, *, float32: bool = False) -> StepRunner:
        """Build the job's step, in its own precision or in float32 without a loss scale."""
        job = self.job.in_float32() if float32 else self.job
        spec = job.spec
        policies = precision.layer_policies(spec.precision, self.device)
        task = job.build_task(self.dataset, policies)
        policies.check_all_matched()
        optimizers, clips = zip(
            *(job.build_optimizer(network, self.plan.total_steps) for network in task.networks),
            strict=True,
        )
        for optimizer, network in zip(optimizers, task.networks, strict=True):
            # Slots must exist before the loop is traced.
            if not optimizer.built:
                optimizer.build(network.model.trainable_variables)
        scale_spec = precision.resolve_loss_scale(spec.loss_scale, policies.compute_dtypes)
        train_step = TrainStep(
            task=task,
            optimizers=list(optimizers),
            loss_scales=[precision.from_spec(scale_spec)] * len(task.networks),
            clips=list(clips),
            accumulate=self.accumulate,
            communicator=self.communicator,
            exchange=spec.runtime.exchange,
            skip_nonfinite=spec.guard.skip_nonfinite,
        )
        if self.communicator.size > 1:
            _check_exchange(train_step)
        return StepRunner(
            train_step,
            self.plan,
            self.feed,
            policies,
            scale_spec.model_dump(mode="json"),
            batch_size=spec.data.batch_size,
            seed=spec.train.seed,
        )


def _check_exchange(train_step: TrainStep) -> None:
    """Raise InvalidModel if the gradients cannot be exchanged as the spec says."""
    exchange = train_step.exchange
    if exchange.batch_norm == "sync":
        check_synchronizable(train_step.task.networks)
    has_scale = any(loss_scale.checks_finite for loss_scale in train_step.loss_scales)
    if exchange.gradient_dtype == "float16" and not has_scale:
        raise InvalidModel(
            "runtime.exchange.gradient_dtype",
            expected="bfloat16 or float32 for a job without a loss scale",
            received="float16",
        )
