"""The update formulas of the optimizers, and the slots that they need.

`new_slots` and `new_weight` are the formula, on float32 tensors: whole weights or some of their
rows. `apply_fused` does the same on float32 variables in one TensorFlow kernel and one pass over
memory, if such a kernel exists. The formulas are those of Keras's optimizers of the same names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

Tensor = Any

# Elements. Measured on two cores: 2^14 take 40 µs in small steps and 75 µs in one kernel, 2^16
# take 250 µs and 140 µs.
_MIN_FUSED_SIZE = 2**15


class UpdateScalars(NamedTuple):
    """The scalars that all variables share in one update; float32, but for `updates`, int64."""

    updates: Tensor
    """The number of updates before this one."""
    rate: Tensor
    corrections: tuple[Tensor, ...]
    """Scalars that the rule derives from these two."""
    applied: Tensor | None = None
    """Whether the update is applied; None if a branch around the update decides."""


class Rule(Protocol):
    """The update formula of an optimizer."""

    @property
    def slots(self) -> tuple[str, ...]:
        """The names of the float32 variables kept for each weight, in its shape."""

    def corrections(self, updates: Tensor, rate: Tensor) -> tuple[Tensor, ...]:
        """Further scalars that the update of every variable needs."""

    def new_slots(
        self, grad: Tensor, slots: Sequence[Tensor], scalars: UpdateScalars
    ) -> list[Tensor]:
        """The new values of the slots of a weight, or of some of its rows."""

    def new_weight(
        self, grad: Tensor, weight: Tensor, slots: Sequence[Tensor], scalars: UpdateScalars
    ) -> Tensor:
        """The new value of the weight; `slots` have their new values already."""

    def has_fused_kernel(self, weight: Any) -> bool:
        """Whether `apply_fused` exists for this variable and is faster."""

    def apply_fused(
        self, grad: Tensor, weight: Any, slots: Sequence[Any], scalars: UpdateScalars
    ) -> None:
        """Assign to the variables their new values."""


@dataclass(frozen=True)
class Sgd:
    """Stochastic gradient descent, with momentum (Polyak 1964) or Nesterov's form of it."""

    momentum: float = 0.0
    nesterov: bool = False

    @property
    def slots(self) -> tuple[str, ...]:
        """The momentum, if any."""
        return ("momentum",) if self.momentum else ()

    def corrections(self, updates: Tensor, rate: Tensor) -> tuple[Tensor, ...]:
        """None."""
        return ()

    def new_slots(
        self, grad: Tensor, slots: Sequence[Tensor], scalars: UpdateScalars
    ) -> list[Tensor]:
        """m ← μ m − rate · grad."""
        return [self.momentum * m - scalars.rate * grad for m in slots]

    def new_weight(
        self, grad: Tensor, weight: Tensor, slots: Sequence[Tensor], scalars: UpdateScalars
    ) -> Tensor:
        """weight ← weight − rate · grad; with momentum + m, or + μ m − rate · grad (Nesterov)."""
        step = scalars.rate * grad
        if not self.momentum:
            return weight - step
        [m] = slots
        return weight + (self.momentum * m - step if self.nesterov else m)

    def has_fused_kernel(self, weight: Any) -> bool:
        """Always."""
        return True

    def apply_fused(
        self, grad: Tensor, weight: Any, slots: Sequence[Any], scalars: UpdateScalars
    ) -> None:
        """Assign to the variables their new values."""
        if not self.momentum:
            tf.raw_ops.ResourceApplyGradientDescent(
                var=weight.handle, alpha=scalars.rate, delta=grad
            )
            return
        tf.raw_ops.ResourceApplyKerasMomentum(
            var=weight.handle,
            accum=slots[0].handle,
            lr=scalars.rate,
            grad=grad,
            momentum=self.momentum,
            use_nesterov=self.nesterov,
        )


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba 2014, arXiv:1412.6980); `epsilon` is the paper's ε̂ of section 2."""

    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7

    @property
    def slots(self) -> tuple[str, ...]:
        """The first and the second moment."""
        return ("momentum", "velocity")

    def corrections(self, updates: Tensor, rate: Tensor) -> tuple[Tensor, ...]:
        """β₁ᵗ, β₂ᵗ, and the rate with the bias correction of the moments."""
        t = tf.cast(updates + 1, tf.float32)
        power_1, power_2 = tf.pow(self.beta_1, t), tf.pow(self.beta_2, t)
        return power_1, power_2, rate * tf.sqrt(1.0 - power_2) / (1.0 - power_1)

    def new_slots(
        self, grad: Tensor, slots: Sequence[Tensor], scalars: UpdateScalars
    ) -> list[Tensor]:
        """m ← β₁ m + (1 − β₁) grad; v ← β₂ v + (1 − β₂) grad²."""
        m, v = slots
        m += (grad - m) * (1.0 - self.beta_1)
        v += (tf.square(grad) - v) * (1.0 - self.beta_2)
        return [m, v]

    def new_weight(
        self, grad: Tensor, weight: Tensor, slots: Sequence[Tensor], scalars: UpdateScalars
    ) -> Tensor:
        """weight ← weight − rate · m / (√v + ε̂)."""
        m, v = slots
        *_, rate = scalars.corrections
        return weight - rate * m / (tf.sqrt(v) + self.epsilon)

    def has_fused_kernel(self, weight: Any) -> bool:
        """Not for small variables on a CPU, where the kernel always uses all threads."""
        return weight.shape.num_elements() >= _MIN_FUSED_SIZE or "CPU" not in weight.device

    def apply_fused(
        self, grad: Tensor, weight: Any, slots: Sequence[Any], scalars: UpdateScalars
    ) -> None:
        """Assign to the variables their new values."""
        power_1, power_2, _ = scalars.corrections
        tf.raw_ops.ResourceApplyAdam(
            var=weight.handle,
            m=slots[0].handle,
            v=slots[1].handle,
            beta1_power=power_1,
            beta2_power=power_2,
            lr=scalars.rate,
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=grad,
        )


@dataclass(frozen=True)
class RmsProp:
    """RMSprop (Hinton's lecture 6e, 2012), not centered; ε is under the root, as in Keras."""

    rho: float = 0.9
    momentum: float = 0.0
    epsilon: float = 1e-7

    @property
    def slots(self) -> tuple[str, ...]:
        """The mean square, and the momentum, if any."""
        return ("velocity", "momentum") if self.momentum else ("velocity",)

    def corrections(self, updates: Tensor, rate: Tensor) -> tuple[Tensor, ...]:
        """None."""
        return ()

    def new_slots(
        self, grad: Tensor, slots: Sequence[Tensor], scalars: UpdateScalars
    ) -> list[Tensor]:
        """v ← ρ v + (1 − ρ) grad²; m ← μ m + rate · grad / √(v + ε)."""
        v, *momentum = slots
        v += (tf.square(grad) - v) * (1.0 - self.rho)
        change = self._change(grad, v, scalars)
        return [v, *(self.momentum * m + change for m in momentum)]

    def new_weight(
        self, grad: Tensor, weight: Tensor, slots: Sequence[Tensor], scalars: UpdateScalars
    ) -> Tensor:
        """weight ← weight − m; without momentum − rate · grad / √(v + ε)."""
        v, *momentum = slots
        return weight - (momentum[0] if momentum else self._change(grad, v, scalars))

    def _change(self, grad: Tensor, v: Tensor, scalars: UpdateScalars) -> Tensor:
        return scalars.rate * grad / tf.sqrt(v + self.epsilon)

    def has_fused_kernel(self, weight: Any) -> bool:
        """Only with momentum: the kernel requires its slot."""
        return self.momentum > 0

    def apply_fused(
        self, grad: Tensor, weight: Any, slots: Sequence[Any], scalars: UpdateScalars
    ) -> None:
        """Assign to the variables their new values."""
        tf.raw_ops.ResourceApplyRMSProp(
            var=weight.handle,
            ms=slots[0].handle,
            mom=slots[1].handle,
            lr=scalars.rate,
            rho=self.rho,
            momentum=self.momentum,
            epsilon=self.epsilon,
            grad=grad,
        )
