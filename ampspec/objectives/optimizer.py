"""The optimizers and the learning-rate schedules, one class per kind."""

from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from ampspec.documents.base import Probability, SpecModel, with_default_kind
from ampspec.references.package import EntryPointGroup, PackageReference

Steps = Annotated[int, Field(ge=0, le=2**53)]
Rate = Annotated[float, Field(gt=0, le=1e6)]


class BaseSchedule(SpecModel):
    """The fields that all schedules have in common; steps count weight updates, from 0.

    In step n of the warm-up the rate is (n + 1) / warmup_steps of the learning rate.
    """

    warmup_steps: Steps = 0


class Constant(BaseSchedule):
    """A constant learning rate after a linear warm-up."""

    kind: Literal["constant"] = "constant"


class Cosine(BaseSchedule):
    """Half a cosine from the end of the warm-up to the end of the run, or to `end_step`.

    The rate falls to `final_fraction` of the learning rate (Loshchilov and Hutter 2016,
    arXiv:1608.03983, without restarts).
    """

    kind: Literal["cosine"] = "cosine"
    final_fraction: float = Field(default=0.0, ge=0, le=1)
    end_step: int | None = Field(
        default=None, ge=1, le=2**53, exclude_if=lambda end_step: end_step is None
    )
    """The step at which the cosine ends; the rate then stays. Null: the last step of the run."""


class Exponential(BaseSchedule):
    """Exponential decay after the warm-up: continuously, by `decay_rate` per `decay_steps`."""

    kind: Literal["exponential"] = "exponential"
    decay_rate: float = Field(default=0.96, gt=0, le=1)
    decay_steps: int = Field(default=1000, ge=1, le=2**53)


class Step(BaseSchedule):
    """The learning rate, multiplied by `factor` at each of the steps in `boundaries`."""

    kind: Literal["step"] = "step"
    boundaries: Annotated[tuple[Steps, ...], Field(strict=False, min_length=1, max_length=1024)]
    factor: float = Field(default=0.1, gt=0, le=1)

    @field_validator("boundaries")
    @classmethod
    def _increase(cls, boundaries: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
        if any(later <= earlier for earlier, later in pairwise(boundaries)):
            raise ValueError("strictly increasing steps")
        warmup_steps = info.data.get("warmup_steps", 0)
        if boundaries[0] < warmup_steps:
            raise ValueError(f"steps after the warm-up, {warmup_steps} or greater")
        return boundaries


Schedule = Annotated[Constant | Cosine | Exponential | Step, Field(discriminator="kind")]


class Optimizer(SpecModel):
    """The fields that all optimizers have in common."""

    learning_rate: Rate = 0.001
    schedule: Schedule = Constant()
    clip_norm: float | None = Field(default=None, gt=0)
    """Maximum global norm of the unscaled gradients."""
    clip_value: float | None = Field(default=None, gt=0)
    """Maximum magnitude of an element of an unscaled gradient."""
    ema: float | None = Field(default=None, gt=0, lt=1)
    """Momentum of an exponential moving average of the weights, used to evaluate and to save."""

    @field_validator("schedule", mode="before")
    @classmethod
    def _fill_in_kind(cls, schedule: Any) -> Any:
        return with_default_kind(schedule, Constant().kind)

    @property
    def slots(self) -> int:
        """The number of optimizer variables per weight, without the moving average."""
        return 0


class Sgd(Optimizer):
    """Stochastic gradient descent."""

    kind: Literal["sgd"] = "sgd"
    learning_rate: Rate = 0.01
    momentum: Probability = 0.0
    nesterov: bool = False

    @property
    def slots(self) -> int:
        """The momentum, if there is one."""
        return int(self.momentum > 0)


class Momentum(Optimizer):
    """Stochastic gradient descent with momentum 0.9 (Polyak 1964)."""

    kind: Literal["momentum"] = "momentum"
    learning_rate: Rate = 0.01
    momentum: float = Field(default=0.9, gt=0, lt=1)
    nesterov: bool = False

    @property
    def slots(self) -> int:
        """The momentum."""
        return 1


class Adam(Optimizer):
    """Adam (Kingma and Ba 2014, arXiv:1412.6980)."""

    kind: Literal["adam"] = "adam"
    beta_1: Probability = 0.9
    beta_2: Probability = 0.999
    epsilon: float = Field(default=1e-7, gt=0, le=1)

    @property
    def slots(self) -> int:
        """The first and the second moment."""
        return 2


class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2017, arXiv:1711.05101)."""

    kind: Literal["adamw"] = "adamw"
    weight_decay: float = Field(default=0.004, ge=0, lt=1)
    beta_1: Probability = 0.9
    beta_2: Probability = 0.999
    epsilon: float = Field(default=1e-7, gt=0, le=1)

    @property
    def slots(self) -> int:
        """The first and the second moment."""
        return 2


class RmsProp(Optimizer):
    """RMSprop (Hinton's lecture 6e, 2012)."""

    kind: Literal["rmsprop"] = "rmsprop"
    rho: Probability = 0.9
    momentum: Probability = 0.0
    epsilon: float = Field(default=1e-7, gt=0, le=1)

    @property
    def slots(self) -> int:
        """The mean square, and the momentum if there is one."""
        return 1 + int(self.momentum > 0)


class PackageOptimizer(Optimizer, PackageReference):
    """An optimizer of a Python package that the operator has installed on workers.

    `ema` must be null: averaging the weights needs an optimizer of ampcore.
    """

    group: ClassVar[EntryPointGroup] = "ampcore.optimizers"
    section: ClassVar[str] = "optimizer"
    kind: Literal["package"] = "package"

    @property
    def slots(self) -> int:
        """0: only the package's code knows. The preflight reports this."""
        return 0


OptimizerSpec = Annotated[
    Sgd | Momentum | Adam | AdamW | RmsProp | PackageOptimizer, Field(discriminator="kind")
]
