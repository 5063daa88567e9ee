"""The settings of every run, from a job spec or for a model trained without one."""

from collections.abc import Mapping
from typing import Any, Protocol, Self

from ampspec.objectives.optimizer import Optimizer
from ampspec.precision.precision import LossScaleSpec, Precision
from ampspec.training.telemetry import Telemetry
from ampspec.training.training import Diagnostics, Guard, Runtime, Train


def micro_batches(spec: "RunSpec") -> int:
    """The micro-batches of a step on all ranks together."""
    return spec.runtime.ranks * spec.train.accumulate


class DataSettings(Protocol):
    """How examples are made into steps."""

    @property
    def batch_size(self) -> int:
        """The examples of a micro-batch."""

    @property
    def shuffle(self) -> bool:
        """Whether each epoch has its own random order."""


class RunSpec(Protocol):
    """The settings of a run; `JobSpec` is one kind."""

    @property
    def data(self) -> DataSettings:
        """The size and the order of the steps."""

    @property
    def precision(self) -> Precision:
        """The dtypes of the layers."""

    @property
    def loss_scale(self) -> LossScaleSpec:
        """The kind of the loss scale, and its constants."""

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer of every network without an entry in `optimizers`."""

    @property
    def optimizers(self) -> Mapping[str, Optimizer]:
        """The optimizers of networks, by name."""

    @property
    def train(self) -> Train:
        """The length of the run."""

    @property
    def guard(self) -> Guard:
        """The guard against runs that no longer learn."""

    @property
    def diagnostics(self) -> Diagnostics:
        """The optional checks."""

    @property
    def runtime(self) -> Runtime:
        """The device, the engine and the ranks."""

    @property
    def telemetry(self) -> Telemetry:
        """The measurements besides the steps."""

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self:
        """The settings with some sections replaced."""

    @classmethod
    def model_validate(cls, obj: Any, *, context: Any = None) -> Self:
        """The settings of a document that `to_json` returned, also in an earlier version."""

    def to_json(self) -> dict[str, Any]:
        """The document that identifies the job in a checkpoint."""
