"""LocalDataset: examples that a program gives as objects, for training without a job spec."""

from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.data.arrays import as_batch
from ampcore.data.batches import BatchSource, arrives_in_batches, batch_source
from ampcore.data.dataset import Dataset
from ampcore.data.examples import ArrayExamples, Batch, Examples, HasSpec, Structure
from ampspec.data.row_split import train_examples
from ampspec.errors import InvalidData

DEFAULT_BATCH_SIZE = 32
"""That of `keras.Model.fit`."""


@dataclass(frozen=True, eq=False)
class LocalDataset:
    """Training and validation examples, in memory or as streams of batches.

    Attributes:
        train: The training examples.
        validation: Those for validation; None without them.
        batch_size: The examples of a micro-batch.
        validation_rows: Where validation examples that were split off are in the data, from 0.
    """

    train: Examples | BatchSource
    validation: Examples | BatchSource | None
    batch_size: int
    validation_rows: NDArray[np.int64] | None = None

    @property
    def is_stream(self) -> bool:
        """Whether the batches arrive in an order of their own."""
        return isinstance(self.train, BatchSource)

    @property
    def example(self) -> Structure:
        """Inputs of one example, all zero."""
        return zero_example(self.train)

    def dataset(self) -> Dataset:
        """The examples as a run takes them."""
        return Dataset(self.train, self.validation, validation_rows=self.validation_rows)


def local_dataset(
    data: Any,
    *,
    validation_data: Any = None,
    validation_split: float = 0.0,
    batch_size: int | None = None,
    steps_per_epoch: int | None = None,
    shuffle: bool = True,
    seed: int = 0,
) -> LocalDataset:
    """The examples in the forms that `keras.Model.fit` takes.

    Args:
        data: Arrays (x, y) or (x, y, sample_weight), where each may be a dictionary, list or tuple
            of arrays; or batches of them: a tf.data.Dataset, a keras.utils.PyDataset, a generator.
        validation_data: In one of the same forms.
        validation_split: The share of arrays that is split off at the end for validation.
        batch_size: For arrays: the examples of a micro-batch; None: 32.
        steps_per_epoch: For endless batches: the batches of an epoch.
        shuffle: Whether arrays and the batches of a PyDataset have another order in each epoch.
        seed: Decides that order.

    Raises:
        InvalidData: They are not of this form.
    """
    source = batch_source(data, steps_per_epoch=steps_per_epoch, shuffle=shuffle, seed=seed)
    validation = _validation(validation_data)
    if source is not None:
        _check_stream(source, batch_size, validation_split)
        dataset = LocalDataset(source, validation, source.batch_size)
    else:
        arrays, rows = as_batch(data, "data"), None
        if validation is None and validation_split:
            count = len(arrays.parts[0])
            arrays, validation = _split(arrays, validation_split)
            rows = None if validation is None else np.arange(len(arrays.parts[0]), count)
        size = batch_size or DEFAULT_BATCH_SIZE
        dataset = LocalDataset(ArrayExamples(arrays), validation, size, rows)
    if validation is not None:
        validation = _like(dataset.train.spec, validation)
        _check_same(dataset.train.spec, validation.spec)
        dataset = replace(dataset, validation=validation)
    return dataset


def _validation(data: Any) -> Examples | BatchSource | None:
    if data is None:
        return None
    if not arrives_in_batches(data):
        return ArrayExamples(as_batch(data, "validation_data"))
    if isinstance(data, tf.data.Dataset) and data.cardinality() == tf.data.INFINITE_CARDINALITY:
        received = "a tf.data.Dataset without an end"
    elif not isinstance(data, tf.data.Dataset | keras.utils.PyDataset):
        received = "a generator"
    else:
        return batch_source(data, steps_per_epoch=None, shuffle=False, seed=0)
    raise InvalidData(
        "validation_data",
        None,
        expected="arrays, or batches that can be read again for each evaluation",
        received=received,
    )


def _check_stream(source: BatchSource, batch_size: int | None, validation_split: float) -> None:
    if batch_size is not None and batch_size != source.batch_size:
        raise InvalidData(
            "data",
            "batch_size",
            expected=f"{source.batch_size}, the size of the first batch, or none",
            received=str(batch_size),
        )
    if validation_split:
        raise InvalidData(
            "data",
            "validation_split",
            expected="0 with data that arrives in batches; give validation_data",
            received=f"{validation_split:g}",
        )


def _split(arrays: Batch, share: float) -> tuple[Batch, ArrayExamples | None]:
    count = len(arrays.parts[0])
    split_at = train_examples(count, share)
    if not 0 < split_at < count:
        return arrays, None
    return (
        arrays.map(lambda part: part[:split_at]),
        ArrayExamples(arrays.map(lambda part: part[split_at:])),
    )


def _like(train: Batch, validation: Examples | BatchSource) -> Examples | BatchSource:
    """Validation arrays in the dtypes of the training, with an axis of size 1 more or less.

    So does `fit`. What would change a value is left as it is, and refused later.
    """
    if not isinstance(validation, ArrayExamples):
        return validation
    arrays = validation.arrays
    examples = Batch(arrays.x, arrays.y)
    try:
        tf.nest.assert_same_structure(Batch(train.x, train.y), examples)
    except (TypeError, ValueError):
        return validation
    fitted = tf.nest.map_structure(_fitted, Batch(train.x, train.y), examples)
    return ArrayExamples(Batch(fitted.x, fitted.y, arrays.sample_weight))


def _fitted(spec: tf.TensorSpec, array: NDArray[Any]) -> NDArray[Any]:
    shape = (len(array), *spec.shape)
    if shape not in {array.shape, (*array.shape, 1)} and array.shape != (*shape, 1):
        return array
    with np.errstate(invalid="ignore"):  # NaN as an integer: found below
        cast = array.reshape(shape).astype(spec.dtype.as_numpy_dtype)
    # NaN is the same missing value in every dtype of floats; other dtypes cannot hold it.
    has_nan = array.dtype.kind == "f" == cast.dtype.kind
    is_exact = np.array_equal(cast.astype(array.dtype), array.reshape(shape), equal_nan=has_nan)
    return cast if is_exact else array


def _check_same(train: Batch, validation: Batch) -> None:
    """The inputs and targets must have the same names, shapes and dtypes; weights may differ."""
    shapes = [
        [(tuple(spec.shape), spec.dtype.name) for spec in Batch(part.x, part.y).parts]
        for part in (train, validation)
    ]
    if shapes[0] != shapes[1]:
        raise InvalidData(
            "validation_data",
            None,
            expected=f"examples as in data: {shapes[0]}",
            received=str(shapes[1]),
        )


def zero_example(examples: HasSpec) -> Structure:
    """The inputs of one example, all zero."""
    spec = examples.spec.map(
        lambda tensor: np.zeros((1, *tensor.shape), tensor.dtype.as_numpy_dtype)
    )
    return spec.x
