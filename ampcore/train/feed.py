"""Provides the loop with the training examples in the order of each epoch, window by window.

A window holds the examples of consecutive steps in order on the device. Data that fits is one
window with the whole epoch; larger data is streamed with tf.data, with prefetched windows.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.data import Batch, Dataset

# Salts the generator, so that other users of the job's seed draw other numbers.
SEED_SALT = 2

WINDOW_BYTES: Final = 64 * 2**20
"""The size of a streamed window, unless one step needs more."""
PREFETCH_WINDOWS: Final = 2
"""How many windows are prefetched."""


class Window(NamedTuple):
    """The examples of whole steps: `first_batch` to `end_batch` (not included) of their epoch."""

    examples: Batch
    first_batch: int
    end_batch: int


class Feed(Protocol):
    """The training examples of every epoch, in an order that depends on seed and epoch alone."""

    order: "ExampleOrder"

    def window(self, epoch: int, batch: int) -> Window:
        """The window with step `batch` of `epoch`; called in the order of training."""


def feed_for(
    dataset: Dataset, step_examples: int, *, shuffle: bool, seed: int, budget_bytes: float
) -> Feed:
    """A resident feed when it takes at most `budget_bytes` on the device, else a streamed one.

    `step_examples` is the number of examples per step; the remainder of an epoch is left out.
    """
    order = ExampleOrder(len(dataset.y_train), step_examples, shuffle=shuffle, seed=seed)
    copies = 2 if shuffle else 1
    if (dataset.x_train.nbytes + dataset.y_train.nbytes) * copies <= budget_bytes:
        return ResidentFeed(dataset, order)
    return StreamedFeed(dataset, order)


class ExampleOrder:
    """The order of the training examples of an epoch: a permutation by (seed, epoch), or none.

    Of `count` examples only whole steps of `step_examples` are used.
    """

    def __init__(self, count: int, step_examples: int, *, shuffle: bool, seed: int) -> None:
        self.shuffle, self.step_examples = shuffle, step_examples
        self.steps = count // step_examples
        self._count, self._seed = count, seed

    def of_epoch(self, epoch: int) -> NDArray[np.int64]:
        """The indices of the examples of an epoch, in order."""
        trained = self.steps * self.step_examples
        if not self.shuffle:
            return np.arange(trained)
        order = np.random.default_rng([self._seed, SEED_SALT, epoch]).permutation(self._count)
        return order[:trained]

    def of_step(self, epoch: int, batch: int) -> NDArray[np.int64]:
        """The indices of the examples of one step."""
        start = batch * self.step_examples
        return self.of_epoch(epoch)[start : start + self.step_examples]


class ResidentFeed:
    """All examples on the device.

    With shuffling there is a second copy in the epoch's order, so that batches are slices of it
    without copying.
    """

    def __init__(self, dataset: Dataset, order: ExampleOrder) -> None:
        self.order = order
        # Keep all of them: with shuffling each epoch leaves out different ones.
        count = None if order.shuffle else order.steps * order.step_examples
        self._examples = Batch(
            tf.constant(dataset.x_train[:count]), tf.constant(dataset.y_train[:count])
        )
        self._ordered: tuple[int, Batch] | None = None

    def window(self, epoch: int, batch: int) -> Window:
        """The whole epoch."""
        return Window(self._of(epoch), 0, self.order.steps)

    def _of(self, epoch: int) -> Batch:
        if not self.order.shuffle:
            return self._examples
        if self._ordered is None or self._ordered[0] != epoch:
            # Release the last epoch first: the budget is two copies, not three.
            self._ordered = None
            order = tf.constant(self.order.of_epoch(epoch))
            self._ordered = (epoch, Batch(*(tf.gather(part, order) for part in self._examples)))
        return self._ordered[1]


class StreamedFeed:
    """The examples on the host; tf.data copies the next windows while the device computes."""

    def __init__(
        self, dataset: Dataset, order: ExampleOrder, window_bytes: int = WINDOW_BYTES
    ) -> None:
        self._x, self._y = dataset.x_train, dataset.y_train
        self.order = order
        step_bytes = order.step_examples * (self._x[:1].nbytes + self._y[:1].nbytes)
        self._window_steps = max(1, min(order.steps, window_bytes // max(1, step_bytes)))
        self._windows = -(-order.steps // self._window_steps)
        self._ordered: tuple[int, NDArray[np.int64]] | None = None
        self._stream: Iterator[Any] | None = None
        self._current: tuple[int, Batch] | None = None

    def window(self, epoch: int, batch: int) -> Window:
        """Some steps of the epoch; all windows have the same length, so the last may overlap."""
        number = epoch * self._windows + batch // self._window_steps
        if self._current is None or self._current[0] != number:
            self._current = (number, self._next(number))
        first = self._first_batch(number)
        return Window(self._current[1], first, first + self._window_steps)

    def _next(self, number: int) -> Batch:
        follows = self._current is not None and number == self._current[0] + 1
        if self._stream is None or not follows:
            self._stream = iter(self._dataset(number))
        return Batch(*next(self._stream))

    def _dataset(self, first: int) -> Any:
        size = self._window_steps * self.order.step_examples
        kinds = (self._x.dtype, self._y.dtype)
        shapes = ((size, *self._x.shape[1:]), (size, *self._y.shape[1:]))

        # Autograph would write it to a file, which would remain if the process is killed.
        @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
        def read(number: Any) -> Any:
            parts = tf.numpy_function(self._read, [number], kinds, stateful=False)
            return tuple(map(tf.ensure_shape, parts, shapes))

        windows = tf.data.Dataset.counter(first, dtype=tf.int64)
        # Only one reader thread: the order of the last epoch is cached without a lock.
        return windows.map(read, num_parallel_calls=1, deterministic=True).prefetch(
            PREFETCH_WINDOWS
        )

    def _read(self, number: int) -> tuple[NDArray[Any], NDArray[Any]]:
        epoch = int(number) // self._windows
        if self._ordered is None or self._ordered[0] != epoch:
            self._ordered = (epoch, self.order.of_epoch(epoch))
        start = self._first_batch(int(number)) * self.order.step_examples
        size = self._window_steps * self.order.step_examples
        rows = self._ordered[1][start : start + size]
        return self._x[rows], self._y[rows]

    def _first_batch(self, number: int) -> int:
        batch = (number % self._windows) * self._window_steps
        return min(batch, self.order.steps - self._window_steps)
