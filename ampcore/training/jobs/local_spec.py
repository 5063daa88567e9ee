"""The settings of a run that was started with `Trainer.from_keras`, without a job spec."""

from collections import Counter
from typing import Annotated, Any, Final, Literal

from pydantic import Field, JsonValue

from ampspec.documents.base import SpecModel
from ampspec.jobs.checked import CheckedSpec
from ampspec.objectives.optimizer import (
    Adam,
    AdamW,
    Momentum,
    Optimizer,
    OptimizerSpec,
    PackageOptimizer,
    RmsProp,
    Sgd,
)
from ampspec.precision.precision import LossScaleSpec, Precision, default_loss_scale
from ampspec.rules.training_rules import (
    averages_need_builtin_optimizers,
    loss_scale_bounds,
    nesterov_needs_momentum,
)
from ampspec.training.telemetry import Telemetry
from ampspec.training.training import Diagnostics, Guard, Runtime, Train

ASSUMED_SLOTS: Final = 2
"""What an optimizer is assumed to keep for each weight where no config of it is usable."""


class KerasModel(SpecModel):
    """A model that was given as an object."""

    kind: Literal["keras"] = "keras"
    variables: list[str]
    """The path and shape of every variable, such as `dense/kernel [20, 64]`."""


class LocalData(SpecModel):
    """Examples that were given as objects."""

    kind: Literal["local"] = "local"
    batch_size: int = Field(ge=1)
    shuffle: bool = True
    examples: int
    """The number of training examples in an epoch."""
    parts: list[str]
    """The dtype and shape of one example of each input, target and weight: `float32 [28, 28]`."""


class KerasOptimizer(Optimizer):
    """An optimizer of Keras."""

    kind: Literal["keras"] = "keras"
    class_name: str
    config: dict[str, JsonValue] = Field(default_factory=dict)
    slots_per_weight: int | None = 0
    """None: unknown."""

    @property
    def slots(self) -> int:
        """The numbers that it keeps for each weight; of an unknown optimizer, as many as Adam."""
        return ASSUMED_SLOTS if self.slots_per_weight is None else self.slots_per_weight


AnyOptimizer = Annotated[
    Sgd | Momentum | Adam | AdamW | RmsProp | PackageOptimizer | KerasOptimizer,
    Field(discriminator="kind"),
]


def _default_loss_scale(valid: dict[str, Any]) -> Any:
    return default_loss_scale(valid.get("precision") or Precision())


class LocalSpec(CheckedSpec):
    """The settings of such a run; those that a spec has, too, have the same names."""

    rules = (loss_scale_bounds, nesterov_needs_momentum, averages_need_builtin_optimizers)

    model: KerasModel
    data: LocalData
    losses: dict[str, str] = Field(default_factory=dict)
    """The name of each output's loss."""
    precision: Precision = Precision()
    loss_scale: LossScaleSpec = Field(default_factory=_default_loss_scale)
    optimizer: AnyOptimizer = Adam()
    optimizers: dict[str, OptimizerSpec] = Field(default_factory=dict)
    train: Train = Train()
    guard: Guard = Guard()
    diagnostics: Diagnostics = Diagnostics()
    runtime: Runtime = Runtime()
    telemetry: Telemetry = Field(
        default=Telemetry(), exclude_if=lambda telemetry: telemetry == Telemetry()
    )
    name: str = "model"

    def to_json(self) -> dict[str, Any]:
        """The document that identifies the run in a checkpoint."""
        document: dict[str, Any] = self.model_dump(mode="json")
        document["losses"] = _renumbered(document["losses"])
        config = document["optimizer"].get("config", {})
        if isinstance(name := config.get("name"), str):
            config["name"] = _stem_and_number(name)[0]
        return document


def _renumbered(by_name: dict[str, str]) -> dict[str, str]:
    """The values by names that are numbered anew: `dense_7` and `dense_9` as `dense`, `dense_1`.

    Keras numbers unnamed layers with a counter of the process, which another model has moved on.
    """
    counts: Counter[str] = Counter()
    renumbered = {}
    for name in sorted(by_name, key=_stem_and_number):
        stem, _ = _stem_and_number(name)
        renumbered[f"{stem}_{counts[stem]}" if counts[stem] else stem] = by_name[name]
        counts[stem] += 1
    return renumbered


def _stem_and_number(name: str) -> tuple[str, int]:
    stem, _, number = name.rpartition("_")
    return (stem, int(number)) if stem and number.isdecimal() else (name, 0)
