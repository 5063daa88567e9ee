"""Stores the variables of a model in other dtypes, without replacing the variables themselves.

Layers, optimizers and custom code keep their references: only the memory behind a Keras
variable is another one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore import keras_internals

Variable = Any
Layer = Any

FLOATS = frozenset({"float32", "float16", "bfloat16"})
"""The dtypes of weights that a policy decides; others belong to the layer."""


def direct_variables(layer: Layer) -> list[Variable]:
    """The floating-point variables of a layer itself, in its variable dtype, not of sub-layers."""
    return [
        variable
        for variable in keras_internals.direct_variables(layer)
        if variable.dtype == layer.variable_dtype and variable.dtype in FLOATS
    ]


def store_as(variable: Variable, dtype: str) -> None:
    """Store a variable in another dtype, with its value rounded to it."""
    if variable.dtype == dtype:
        return
    value = tf.cast(variable._value, dtype)
    variable._dtype = dtype
    variable._initialize(value)


@dataclass
class KeptVariables:
    """Variables as they are now, in memory and value, to put them back later.

    Args:
        variables: The variables.
    """

    variables: Sequence[Variable]
    _memory: list[tuple[Any, str]] = field(init=False)
    _values: list[NDArray[Any]] = field(init=False)

    def __post_init__(self) -> None:
        self._memory = [(variable._value, variable.dtype) for variable in self.variables]
        self._values = [np.array(variable._value.numpy()) for variable in self.variables]

    def put_back(self) -> None:
        """Give the variables their memory, dtype and value of before."""
        for variable, value in zip(self._put_back_memory(), self._values, strict=True):
            variable.assign(value)

    def keep_values(self) -> None:
        """Give the variables their memory and dtype of before, with their values of now."""
        values = [variable._value for variable in self.variables]
        for variable, value in zip(self._put_back_memory(), values, strict=True):
            if variable._value is not value:
                variable.assign(tf.cast(value, variable.dtype))

    def assign_values(self) -> None:
        """Assign the values of before in the dtypes of now."""
        for variable, value in zip(self.variables, self._values, strict=True):
            variable.assign(tf.cast(value, variable.dtype))

    def _put_back_memory(self) -> Iterable[Variable]:
        for variable, (memory, dtype) in zip(self.variables, self._memory, strict=True):
            variable._value, variable._dtype = memory, dtype
        return self.variables
