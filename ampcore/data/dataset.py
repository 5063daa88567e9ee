"""Dataset: examples and labels, divided into those that train and those that only evaluate."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ampcore.spec.rules import train_examples

Examples = NDArray[np.float32]
Labels = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Dataset:
    """float32 examples (n, …) and int32 labels (n,) from 0 to `classes` - 1."""

    x_train: Examples
    y_train: Labels
    x_val: Examples
    y_val: Labels
    classes: int

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return self.x_train.shape[1:]

    def steps_per_epoch(self, batch_size: int) -> int:
        """Whole batches in an epoch; the rest, `dropped_examples`, is left out."""
        return len(self.x_train) // batch_size

    def dropped_examples(self, batch_size: int) -> int:
        """Examples that each epoch leaves out; with shuffling, others every time."""
        return len(self.x_train) % batch_size

    @classmethod
    def split(cls, x: NDArray[Any], y: NDArray[Any], classes: int, validation_split: float) -> Self:
        """The last share `validation_split` evaluates, the rest trains, as in Keras."""
        cut = train_examples(len(x), validation_split)
        x, y = x.astype(np.float32, copy=False), y.astype(np.int32, copy=False)
        return cls(x[:cut], y[:cut], x[cut:], y[cut:], classes)
