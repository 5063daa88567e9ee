"""BatchSource: training data that arrives as batches in an order of its own."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from ampcore.data.arrays import as_batch
from ampcore.data.examples import Batch
from ampspec.errors import InvalidData

SEED_SALT: Final = 4
"""Salts the generator, so that other users of the job's seed draw other numbers."""
SOURCE: Final = "data"
"""The name of the source in errors."""


class BatchSource(ABC):
    """Batches of equal size; a smaller one at the end of an epoch is left out of the training.

    Args:
        first: The first batch, which decides the size, the shapes and the dtypes of all.
        steps: The whole batches in an epoch.
    """

    name: str = SOURCE
    """What errors call it."""
    can_rewind: bool
    """Whether `epoch` can begin anywhere, so that a run can resume."""

    def __init__(self, first: Batch, steps: int) -> None:
        self.batch_size = len(first.parts[0])
        self.batches = steps
        self.spec = first.map(lambda part: tf.TensorSpec(part.shape[1:], part.dtype))

    def __len__(self) -> int:
        return self.batches * self.batch_size

    @abstractmethod
    def epoch(self, number: int, first: int) -> Iterator[Batch]:
        """The batches of an epoch from the one with index `first` on, at least all whole ones."""

    def check(self, batch: Batch, index: int) -> Batch:
        """The batch, if it has the shapes and dtypes of the first one.

        Raises:
            InvalidData: It has others.
        """
        try:
            tf.nest.assert_same_structure(self.spec, batch)
        except (TypeError, ValueError):
            _refuse(index, "the same inputs and targets", "others")
        for spec, part in zip(self.spec.parts, batch.parts, strict=True):
            if part.shape[1:] != tuple(spec.shape) or part.dtype != spec.dtype:
                _refuse(
                    index,
                    f"{spec.dtype.name} of shape {list(spec.shape)}, as in the first batch; pad "
                    "sequences to one length for all batches (padded_shapes of padded_batch)",
                    f"{part.dtype} of shape {list(part.shape[1:])}",
                )
            if len(part) > self.batch_size:
                _refuse(index, f"at most {self.batch_size} examples", str(len(part)))
        return batch


class TensorFlowSource(BatchSource):
    """A tf.data.Dataset of batches.

    An endless one goes on from epoch to epoch; any other begins again in each epoch. Whether it
    gives the same batches again is its own affair: see `shuffle` with a seed.
    """

    def __init__(self, dataset: Any, steps_per_epoch: int | None) -> None:
        first = next(iter(dataset.take(1)), None)
        if first is None:
            raise InvalidData(SOURCE, None, expected="at least one batch", received="none")
        batch = as_batch(_to_numpy(first), SOURCE)
        count = int(dataset.cardinality())
        self._is_endless = count == tf.data.INFINITE_CARDINALITY
        self.can_rewind = not self._is_endless
        super().__init__(batch, steps_per_epoch or self._whole_batches(dataset, count, batch))
        self._dataset = dataset
        # A dataset of unknown length may have no end either.
        self._limit = steps_per_epoch
        self._endless: Iterator[Any] | None = None

    def epoch(self, number: int, first: int) -> Iterator[Batch]:
        """The batches of an epoch; those before `first` are read and left out."""
        if self._is_endless:
            self._endless = self._endless or iter(self._dataset)
            items: Iterable[Any] = islice(self._endless, self.batches - first)
        else:
            limit = None if self._limit is None else self._limit - first
            items = islice(self._dataset.skip(first), limit)
        for index, item in enumerate(items, start=first):
            yield self.check(as_batch(_to_numpy(item), SOURCE), index)

    @staticmethod
    def _whole_batches(dataset: Any, count: int, first: Batch) -> int:
        if count == tf.data.INFINITE_CARDINALITY:
            raise InvalidData(
                SOURCE,
                "steps_per_epoch",
                expected="a number, since this tf.data.Dataset has no end",
                received="none",
            )
        size = len(first.parts[0])
        if count in {tf.data.UNKNOWN_CARDINALITY, 1}:
            return sum(len(as_batch(_to_numpy(item), SOURCE).parts[0]) == size for item in dataset)
        last = next(iter(dataset.skip(count - 1)))
        return count - int(len(as_batch(_to_numpy(last), SOURCE).parts[0]) != size)


class PyDatasetSource(BatchSource):
    """A keras.utils.PyDataset; with `shuffle` the order of its batches differs in every epoch.

    Its `on_epoch_end` is called after each epoch, as by `fit`.
    """

    can_rewind = True

    def __init__(self, dataset: Any, *, shuffle: bool, seed: int) -> None:
        count = dataset.num_batches
        if not count:
            raise InvalidData(
                SOURCE, None, expected="a PyDataset with a length", received=f"length {count}"
            )
        first = as_batch(dataset[0], SOURCE)
        last = as_batch(dataset[count - 1], SOURCE)
        whole = count - int(len(last.parts[0]) != len(first.parts[0]))
        super().__init__(first, whole)
        self._dataset, self._shuffle, self._seed = dataset, shuffle, seed

    def epoch(self, number: int, first: int) -> Iterator[Batch]:
        """The batches of an epoch, in the order of this epoch."""
        order = np.arange(self.batches)
        if self._shuffle:
            order = np.random.default_rng([self._seed, SEED_SALT, number]).permutation(order)
        for index in order[first:]:
            yield self.check(as_batch(self._dataset[int(index)], SOURCE), int(index))
        self._dataset.on_epoch_end()


class GeneratorSource(BatchSource):
    """A generator, or another iterator: it goes on from epoch to epoch."""

    can_rewind = False

    def __init__(self, generator: Iterator[Any], steps_per_epoch: int | None) -> None:
        if not steps_per_epoch:
            raise InvalidData(
                SOURCE,
                "steps_per_epoch",
                expected="a number, since a generator does not tell its length",
                received="none",
            )
        self._items = generator
        item = next(self._items, None)
        if item is None:
            raise InvalidData(SOURCE, None, expected="at least one batch", received="none")
        self._first: Batch | None = as_batch(item, SOURCE)
        super().__init__(self._first, steps_per_epoch)

    def epoch(self, number: int, first: int) -> Iterator[Batch]:
        """The next batches."""
        for index in range(first, self.batches):
            if self._first is not None:
                batch, self._first = self._first, None
            else:
                item = next(self._items, None)
                if item is None:
                    return
                batch = as_batch(item, SOURCE)
            yield self.check(batch, index)


def batch_source(
    data: Any, *, steps_per_epoch: int | None, shuffle: bool, seed: int
) -> BatchSource | None:
    """The source of data that arrives in batches; None for any other data."""
    if isinstance(data, tf.data.Dataset):
        return TensorFlowSource(data, steps_per_epoch)
    if isinstance(data, keras.utils.PyDataset):
        return PyDatasetSource(data, shuffle=shuffle, seed=seed)
    if isinstance(data, Callable) and not isinstance(data, type):  # type: ignore[arg-type]
        data = data()
    return GeneratorSource(data, steps_per_epoch) if isinstance(data, Iterator) else None


def arrives_in_batches(data: Any) -> bool:
    """Whether `batch_source` has a source for this data."""
    if isinstance(data, tf.data.Dataset | keras.utils.PyDataset | Iterator):
        return True
    return callable(data) and not isinstance(data, type)


def _to_numpy(item: Any) -> Any:
    return tf.nest.map_structure(lambda part: part.numpy(), item)


def _refuse(index: int, expected: str, received: str) -> Any:
    raise InvalidData(SOURCE, f"batch {index}", expected=expected, received=received)
