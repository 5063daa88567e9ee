"""Dataset: examples and labels, split into training and validation."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ampcore.spec.rules import train_examples

Tensor = Any
Examples = NDArray[np.float32] | NDArray[np.int32]
Labels = NDArray[np.int32]
InputDtype = Literal["float32", "int32"]


class Batch(NamedTuple):
    """Examples (n, …), float32 or int32, and their labels, int32 (n,), or (n, T) for sequences."""

    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class Signature:
    """What a model needs to know about the data: example shape and dtype, and the classes."""

    input_shape: tuple[int, ...]
    input_dtype: InputDtype
    classes: int
    """Labels go from 0 to `classes` - 1."""
    vocabulary: int | None = None
    """int32 examples hold keys from 0 to `vocabulary` - 1; None for float32 ones."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples (n, …), float32 or int32, and int32 labels (n,), or (n, T) for sequences."""

    x_train: Examples
    y_train: Labels
    x_val: Examples
    y_val: Labels
    signature: Signature

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return self.signature.input_shape

    @property
    def classes(self) -> int:
        """Labels go from 0 to `classes` - 1."""
        return self.signature.classes

    def steps_per_epoch(self, batch_size: int) -> int:
        """The whole batches in an epoch; the remaining `dropped_examples` are left out."""
        return len(self.x_train) // batch_size

    def dropped_examples(self, batch_size: int) -> int:
        """The number of examples that each epoch leaves out; with shuffling they differ."""
        return len(self.x_train) % batch_size

    @classmethod
    def split(
        cls,
        x: NDArray[Any],
        y: NDArray[Any],
        classes: int,
        validation_split: float,
        vocabulary: int | None = None,
    ) -> Self:
        """Split off the last share `validation_split` for validation, as Keras does.

        Examples become int32 when they are keys of a vocabulary, float32 otherwise.
        """
        split_at = train_examples(len(x), validation_split)
        dtype: InputDtype = "float32" if vocabulary is None else "int32"
        x, y = x.astype(dtype, copy=False), y.astype(np.int32, copy=False)
        signature = Signature(x.shape[1:], dtype, classes, vocabulary)
        return cls(x[:split_at], y[:split_at], x[split_at:], y[split_at:], signature)
