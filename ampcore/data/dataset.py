"""Dataset: the training and validation examples of a job, and their signature."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from ampcore.data.batches import BatchSource
from ampcore.data.examples import ArrayExamples, Batch, Examples, Structure
from ampcore.data.preparation.preprocessing import PreparedInputs
from ampcore.data.preparation.targets import Encoding
from ampdata.row_places import RowPlace
from ampspec.api.data_summary import DataSummary
from ampspec.data.row_split import train_examples
from ampspec.data.target_columns import OUTPUT

InputDtype = Literal["float32", "int32"]


@dataclass(frozen=True)
class Signature:
    """What a model needs to know about the data: example shape and dtype, and the targets."""

    input_shape: tuple[int, ...]
    input_dtype: InputDtype
    classes: int
    """The size of the model's output: the classes, labels or numbers of an example."""
    vocabulary: int | None = None
    """int32 examples hold keys from 0 to `vocabulary` - 1; None for float32 ones."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """For several inputs, a tf.TensorSpec of one example of each; `input_shape` is the first."""
    given_targets: Mapping[str, Encoding] = field(default_factory=dict)
    """The targets of each output; without them, one output with `classes` classes."""

    @property
    def targets(self) -> Mapping[str, Encoding]:
        """The targets of each output; the only one of most tasks is called `output`."""
        if self.given_targets:
            return self.given_targets
        # A text has the next token at each position.
        positions = self.input_shape if self.vocabulary == self.classes else ()
        return {OUTPUT: Encoding("class", self.classes, shape=positions)}


@dataclass(frozen=True, eq=False)
class Dataset:
    """The examples of a job, split into training and validation."""

    train: Examples | BatchSource
    validation: Examples | BatchSource | None
    """None without validation examples."""
    signature: Signature | None = None
    """None where the model exists before the data."""
    prepared: PreparedInputs | None = None
    """The layers that made the inputs of raw data; they are saved with the model."""
    characters: str = ""
    """The character of each key, for texts."""
    place_of: Callable[[int], RowPlace] | None = None
    """Where the training example with an index is stored; None for data that is not stored."""
    summary: DataSummary | None = None
    """Which rows, columns and classes there are; None for data without columns."""
    validation_rows: NDArray[np.int64] | None = None
    """Where each validation example is in the data, from 0; None: the examples of a part of their
    own, in its order."""
    read_raw_validation: Callable[[NDArray[np.int64]], Mapping[str, NDArray[Any]]] | None = None
    """The input columns of validation examples with some indices, ascending, as they are in the
    data; None: their inputs are prepared nowhere."""
    split_seed: int | None = None
    """What drew the validation rows, or synthetic data; None where nothing is drawn."""
    resources: Any = None
    """What must live as long as the examples."""

    def require_signature(self) -> Signature:
        """The signature, which the loader of every kind of data gives."""
        if self.signature is None:
            raise TypeError("This dataset has no signature to build a model for.")
        return self.signature

    @classmethod
    def from_arrays(
        cls,
        x_train: Structure,
        y_train: Structure,
        x_val: NDArray[Any],
        y_val: NDArray[Any],
        signature: Signature,
    ) -> Self:
        """A dataset in memory; without rows in `y_val` there is no validation."""
        validation = ArrayExamples(Batch(x_val, y_val)) if len(y_val) else None
        return cls(ArrayExamples(Batch(x_train, y_train)), validation, signature)

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
        dataset = cls.from_arrays(x[:split_at], y[:split_at], x[split_at:], y[split_at:], signature)
        return replace(dataset, validation_rows=np.arange(split_at, len(x)))

    def steps_per_epoch(self, batch_size: int) -> int:
        """The whole batches in an epoch; the remaining `dropped_examples` are left out."""
        return len(self.train) // batch_size

    def dropped_examples(self, batch_size: int) -> int:
        """The number of examples that each epoch leaves out; with shuffling they differ."""
        return len(self.train) % batch_size
