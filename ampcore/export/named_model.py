"""A saved model as a function of named tensors, as other formats call it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import keras
import numpy as np
import tensorflow as tf

from ampcore.keras_internals import flatten_layers, producer

Arrays = Mapping[str, np.ndarray[Any, Any]]
INVALID: Final = re.compile(r"[^A-Za-z0-9_.]")
"""What neither TensorFlow nor ONNX allows in the names of inputs."""


class ExportFailed(Exception):
    """A model has no form in a format, or another one than it should; the message says why."""


@dataclass(frozen=True)
class NamedModel:
    """A functional or sequential model with names for its inputs and outputs.

    Attributes:
        model: As it was loaded from its file.
        columns: The names of its inputs in the signature, in the order of `model.inputs`.
        inputs: The same as other formats allow them.
        outputs: The names of its outputs, in the order of `model.outputs`.
    """

    model: Any
    columns: Sequence[str]
    inputs: Sequence[str]
    outputs: Sequence[str]

    @classmethod
    def of(cls, model: Any, signature: Mapping[str, Any]) -> Self:
        """The model with the names of its signature.

        Args:
            model: A Keras model.
            signature: Its entry in `signature.json`.

        Raises:
            ExportFailed: Its inputs have no names: it is a subclassed model.
        """
        inputs, outputs = getattr(model, "inputs", None), getattr(model, "outputs", None)
        if not inputs or not outputs:
            raise ExportFailed(
                "Expected a functional or sequential model; a subclassed one has no inputs to name."
            )
        columns = _keys(model) or [producer(tensor)[0].name for tensor in inputs]
        names = list(signature.get("outputs") or {})
        if len(names) != len(outputs):
            names = [f"output_{number}" for number in range(len(outputs))]
        return cls(model, columns, _valid_names(columns), _valid_names(names))

    @property
    def specs(self) -> list[tf.TensorSpec]:
        """The inputs, with a batch axis of any size."""
        return [
            tf.TensorSpec(tensor.shape, tensor.dtype, name=name)
            for name, tensor in zip(self.inputs, self.model.inputs, strict=True)
        ]

    def call(self, *tensors: Any) -> dict[str, Any]:
        """The outputs by name, for inputs in order."""
        keys = _keys(self.model)
        arguments: Any = (
            dict(zip(keys, tensors, strict=True))
            if keys
            else list(tensors)
            if len(tensors) > 1
            else tensors[0]
        )
        outputs = keras.tree.flatten(self.model(arguments, training=False))
        return dict(zip(self.outputs, outputs, strict=True))

    def predict(self, arrays: Arrays) -> dict[str, np.ndarray[Any, Any]]:
        """The outputs for arrays by column."""
        tensors = [tf.constant(arrays[column]) for column in self.columns]
        return {name: np.asarray(value) for name, value in self.call(*tensors).items()}

    @property
    def compute_dtype(self) -> str:
        """The dtype with the fewest digits in which a layer computes."""
        dtypes = {
            getattr(layer, "compute_dtype", None)
            for layer in flatten_layers(self.model, include_self=False)
        }
        return next((dtype for dtype in ("bfloat16", "float16") if dtype in dtypes), "float32")


def _keys(model: Any) -> list[str]:
    """The keys of a model's inputs in the order of `model.inputs`; empty if they have none."""
    # A sequential model has the list only.
    structure = None if isinstance(model, keras.Sequential) else model.input
    return list(structure) if isinstance(structure, Mapping) else []


def _valid_names(names: Sequence[str]) -> list[str]:
    """Distinct names of letters, digits, dots and underscores."""
    valid: list[str] = []
    for number, name in enumerate(names):
        candidate = INVALID.sub("_", name)
        if not candidate or not candidate[0].isalpha():
            candidate = f"x_{candidate}"
        valid.append(candidate if candidate not in valid else f"{candidate}_{number}")
    return valid
