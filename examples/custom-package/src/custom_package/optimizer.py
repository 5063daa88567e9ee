"""Signum: the sign of the average gradient decides the direction, the learning rate the distance.

A job names it in `optimizer: {kind: package, package: custom-package, name: signum}`.
Source: Bernstein et al. 2018, arXiv:1802.04434, algorithm 2.
"""

from typing import Any

import keras
from keras import ops
from pydantic import BaseModel, ConfigDict, Field

from ampcore.plugins import PackageOptimizer


class Options(BaseModel):
    """The options of the optimizer."""

    model_config = ConfigDict(extra="forbid")

    momentum: float = Field(default=0.9, ge=0, lt=1)


class Signum(keras.optimizers.Optimizer):  # type: ignore[misc]
    """m <- momentum * m + (1 - momentum) * gradient; weight <- weight - learning_rate * sign(m)."""

    def __init__(self, learning_rate: Any, momentum: float) -> None:
        super().__init__(learning_rate, name="signum")
        self.momentum = momentum

    def build(self, variables: Any) -> None:
        """Create an average for each weight, which checkpoints keep."""
        if self.built:
            return
        super().build(variables)
        self.averages = [
            self.add_variable_from_reference(each, name="average") for each in variables
        ]

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Update one weight and its average."""
        average = self.averages[self._get_variable_index(variable)]
        gradient, rate = (ops.cast(one, variable.dtype) for one in (gradient, learning_rate))
        self.assign(average, self.momentum * average + (1 - self.momentum) * gradient)
        self.assign_sub(variable, rate * ops.sign(average))


def build(options: Options, learning_rate: Any) -> Signum:
    """Steps of the same size for every weight, in the direction of its average gradient."""
    return Signum(learning_rate, options.momentum)


signum = PackageOptimizer(build, Options)
