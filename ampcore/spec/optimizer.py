"""How the weights are updated: one class per optimizer kind, and the learning-rate schedules."""

from typing import Annotated, Literal

from pydantic import Field

from ampcore.spec.part import Part, Probability

Steps = Annotated[int, Field(ge=0, le=2**53)]
Rate = Annotated[float, Field(gt=0, le=1e6)]


class Constant(Part):
    """The learning rate stays, after a linear warm-up."""

    kind: Literal["constant"] = "constant"
    warmup_steps: Steps = 0


class Cosine(Part):
    """Half a cosine from the learning rate down to `final_fraction` of it."""

    kind: Literal["cosine"] = "cosine"
    warmup_steps: Steps = 0
    final_fraction: float = Field(default=0.0, ge=0, le=1)


class Exponential(Part):
    """The learning rate times `decay_rate` every `decay_steps`."""

    kind: Literal["exponential"] = "exponential"
    warmup_steps: Steps = 0
    decay_rate: float = Field(default=0.96, gt=0, le=1)
    decay_steps: int = Field(default=1000, ge=1, le=2**53)


class Step(Part):
    """The learning rate times `factor` at each of the `boundaries`."""

    kind: Literal["step"] = "step"
    warmup_steps: Steps = 0
    boundaries: Annotated[tuple[Steps, ...], Field(strict=False, min_length=1, max_length=1024)]
    factor: float = Field(default=0.1, gt=0, le=1)


Schedule = Annotated[Constant | Cosine | Exponential | Step, Field(discriminator="kind")]


class Optimizer(Part):
    """What every optimizer has in common."""

    learning_rate: Rate = 0.001
    schedule: Schedule = Constant()
    clip_norm: float | None = Field(default=None, gt=0)
    """Largest global norm of the unscaled gradients."""
    clip_value: float | None = Field(default=None, gt=0)
    """Largest magnitude of an unscaled gradient's element."""
    ema: float | None = Field(default=None, gt=0, lt=1)
    """Momentum of an exponential moving average of the weights."""


class Sgd(Optimizer):
    """Stochastic gradient descent."""

    kind: Literal["sgd"] = "sgd"
    learning_rate: Rate = 0.01
    momentum: Probability = 0.0
    nesterov: bool = False


class Momentum(Optimizer):
    """Stochastic gradient descent with momentum 0.9 (Polyak 1964)."""

    kind: Literal["momentum"] = "momentum"
    learning_rate: Rate = 0.01
    momentum: float = Field(default=0.9, gt=0, lt=1)
    nesterov: bool = False


class Adam(Optimizer):
    """Adam (Kingma and Ba 2014, arXiv:1412.6980)."""

    kind: Literal["adam"] = "adam"
    beta_1: Probability = 0.9
    beta_2: Probability = 0.999
    epsilon: float = Field(default=1e-7, gt=0, le=1)


class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2017, arXiv:1711.05101)."""

    kind: Literal["adamw"] = "adamw"
    weight_decay: float = Field(default=0.004, ge=0, lt=1)
    beta_1: Probability = 0.9
    beta_2: Probability = 0.999
    epsilon: float = Field(default=1e-7, gt=0, le=1)


class RmsProp(Optimizer):
    """RMSprop (Hinton's lecture 6e, 2012)."""

    kind: Literal["rmsprop"] = "rmsprop"
    rho: Probability = 0.9
    momentum: Probability = 0.0
    epsilon: float = Field(default=1e-7, gt=0, le=1)


OptimizerSpec = Annotated[Sgd | Momentum | Adam | AdamW | RmsProp, Field(discriminator="kind")]
