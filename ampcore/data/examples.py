"""Examples: random access to the inputs, targets and weights of training or validation examples."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

Structure = Any
"""One array or tensor, or dictionaries, lists and tuples of them; () for none."""


class Batch(NamedTuple):
    """The examples of a batch; the first axis of every part counts them.

    Attributes:
        x: The inputs: one tensor (n, …), or several by name or position.
        y: The targets, in the same manner.
        sample_weight: The weight of each example (n,) in the loss, or one for each output; () if
            all examples count the same.
    """

    x: Structure
    y: Structure
    sample_weight: Structure = ()

    @property
    def parts(self) -> list[Any]:
        """All arrays or tensors, in a fixed order."""
        parts: list[Any] = tf.nest.flatten(self)
        return parts

    def map(self, function: Any) -> "Batch":
        """The batch with every array or tensor replaced by the function's result."""
        mapped: Batch = tf.nest.map_structure(function, self)
        return mapped


def single_or_all(parts: Mapping[str, Any]) -> Any:
    """The only part, or all parts by name: the form in which Keras has inputs and outputs."""
    return dict(parts) if len(parts) > 1 else next(iter(parts.values()))


class Examples(Protocol):
    """Examples that can be read in any order."""

    @property
    def spec(self) -> Batch:
        """For each part a tf.TensorSpec of one example."""

    def __len__(self) -> int: ...

    def read(self, rows: NDArray[np.int64]) -> Batch:
        """The examples with these indices, in this order, as NumPy arrays."""


class ArrayExamples:
    """Examples in memory.

    Args:
        arrays: NumPy arrays with the same number of rows.
    """

    def __init__(self, arrays: Batch) -> None:
        self.arrays = arrays

    @cached_property
    def spec(self) -> Batch:
        """For each part a tf.TensorSpec of one example."""
        return self.arrays.map(lambda part: tf.TensorSpec(part.shape[1:], part.dtype))

    def __len__(self) -> int:
        return len(self.arrays.parts[0])

    def read(self, rows: NDArray[np.int64]) -> Batch:
        """The examples with these indices, in this order, copied."""
        return self.arrays.map(lambda part: part[rows])

    def first(self, count: int | None) -> Batch:
        """The first examples, without a copy; None: all of them."""
        return self.arrays.map(lambda part: part[:count])


class HasSpec(Protocol):
    """Anything that knows the shapes and dtypes of its examples."""

    @property
    def spec(self) -> Batch:
        """For each part a tf.TensorSpec of one example."""


def example_bytes(examples: HasSpec) -> int:
    """The memory of one example."""
    return sum(part.dtype.size * part.shape.num_elements() for part in examples.spec.parts)


def consecutive(examples: Examples, size: int) -> Iterator[Batch]:
    """All examples in order, in pieces of at most `size`."""
    for start in range(0, len(examples), size):
        end = min(start + size, len(examples))
        if isinstance(examples, ArrayExamples):
            yield examples.arrays.map(lambda part, rows=slice(start, end): part[rows])
        else:
            yield examples.read(np.arange(start, end))
