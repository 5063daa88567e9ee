"""Provides the loop with the training examples in the order of each epoch, window by window.

A window holds the examples of consecutive steps in order on the device. Data that fits is one
window with the whole epoch; larger data is streamed with tf.data, with prefetched windows.
"""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.data import ArrayExamples, Batch, Examples
from ampcore.data.batches import BatchSource
from ampcore.data.example_order import BatchOrder, ExampleOrder, PartOrder, StepOrder
from ampcore.data.examples import example_bytes
from ampspec.errors import IncompatibleCheckpoint, InvalidData

WINDOW_BYTES: Final = 64 * 2**20
"""The size of a streamed window, unless one step needs more."""
PREFETCH_WINDOWS: Final = 2
"""How many windows are prefetched."""
WINDOW_BATCHES: Final = 8
"""The most batches of a BatchSource in a window: the first step waits for a whole window."""


class Window(NamedTuple):
    """The examples of whole steps: `first_batch` to `end_batch` (not included) of their epoch."""

    examples: Batch
    first_batch: int
    end_batch: int


class TrainingFeed(Protocol):
    """The training examples of every epoch, in an order that depends on seed and epoch alone."""

    @property
    def order(self) -> StepOrder:
        """The examples of each step."""

    def window(self, epoch: int, batch: int) -> Window:
        """The window with step `batch` of `epoch`; called in the order of training."""


def feed_for(
    examples: Examples | BatchSource,
    step_examples: int,
    *,
    shuffle: bool,
    seed: int,
    budget_bytes: float,
    part: tuple[int, int] = (0, 1),
) -> TrainingFeed:
    """A resident feed for arrays of at most `budget_bytes` on the device, else a streamed one.

    `step_examples` is the number of examples per step; the remainder of an epoch is left out. With
    several ranks `part` is the number of this one and how many they are: each gets its part of
    every step.
    """
    if isinstance(examples, BatchSource):
        return BatchFeed(examples, step_examples, part)
    order: ExampleOrder | PartOrder
    order = ExampleOrder(len(examples), step_examples, shuffle=shuffle, seed=seed)
    if part[1] > 1:
        order = PartOrder(order, *part)
    copies = 1 if order.is_sequential else 2
    if isinstance(examples, ArrayExamples) and (
        example_bytes(examples) * len(examples) * copies <= budget_bytes
    ):
        return ResidentFeed(examples, order)
    return StreamedFeed(examples, order)


class ResidentFeed:
    """All examples on the device.

    With shuffling, or for one of several ranks, there is a second copy in the epoch's order, so
    that batches are slices of it without copying.
    """

    def __init__(self, examples: ArrayExamples, order: ExampleOrder | PartOrder) -> None:
        self.order = order
        # Keep all of them: with shuffling each epoch leaves out different ones.
        count = order.steps * order.step_examples if order.is_sequential else None
        self._examples = examples.first(count).map(tf.constant)
        self._ordered: tuple[int, Batch] | None = None

    def window(self, epoch: int, batch: int) -> Window:
        """The whole epoch."""
        return Window(self._of(epoch), 0, self.order.steps)

    def _of(self, epoch: int) -> Batch:
        if self.order.is_sequential:
            return self._examples
        epoch = epoch if self.order.shuffle else 0
        if self._ordered is None or self._ordered[0] != epoch:
            # Release the last epoch first: the budget is two copies, not three.
            self._ordered = None
            order = tf.constant(self.order.of_epoch(epoch))
            self._ordered = (epoch, self._examples.map(lambda part: tf.gather(part, order)))
        return self._ordered[1]


class StreamedFeed:
    """The examples on the host; tf.data copies the next windows while the device computes."""

    def __init__(
        self,
        examples: Examples,
        order: ExampleOrder | PartOrder,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        self._examples = examples
        self.order = order
        step_bytes = order.step_examples * example_bytes(examples)
        self._window_steps = max(1, min(order.steps, window_bytes // max(1, step_bytes)))
        self._windows = -(-order.steps // self._window_steps)
        self._ordered: tuple[int, NDArray[np.int64]] | None = None
        self._stream: Iterator[Any] | None = None
        self._error: Exception | None = None
        """An error while reading, which tf.data would replace by one of its own."""
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
        try:
            parts = next(self._stream)
        except tf.errors.OpError:
            if self._error is None:
                raise
            raise self._error from None
        window: Batch = tf.nest.pack_sequence_as(self._examples.spec, parts)
        return window

    def _dataset(self, first: int) -> Any:
        size = self._window_steps * self.order.step_examples
        specs = self._examples.spec.parts
        dtypes = [spec.dtype for spec in specs]

        # Autograph would write it to a file, which would remain if the process is killed.
        @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
        def read(number: Any) -> Any:
            parts = tf.numpy_function(self._read, [number], dtypes, stateful=False)
            shapes = [(size, *spec.shape) for spec in specs]
            return tuple(map(tf.ensure_shape, parts, shapes))

        windows = tf.data.Dataset.counter(first, dtype=tf.int64)
        # Only one reader thread: the order of the last epoch is cached without a lock.
        return windows.map(read, num_parallel_calls=1, deterministic=True).prefetch(
            PREFETCH_WINDOWS
        )

    def _read(self, number: int) -> list[NDArray[Any]]:
        try:
            return self._parts(number)
        except Exception as error:
            self._error = error
            raise

    def _parts(self, number: int) -> list[NDArray[Any]]:
        epoch = int(number) // self._windows
        if self._ordered is None or self._ordered[0] != epoch:
            self._ordered = (epoch, self.order.of_epoch(epoch))
        start = self._first_batch(int(number)) * self.order.step_examples
        size = self._window_steps * self.order.step_examples
        rows = self._ordered[1][start : start + size]
        return self._examples.read(rows).parts

    def _first_batch(self, number: int) -> int:
        batch = (number % self._windows) * self._window_steps
        return min(batch, self.order.steps - self._window_steps)


class BatchFeed:
    """The batches of a source; the next windows are read in a thread of tf.data.

    One of several ranks reads all batches, and uses its part of each step.
    """

    def __init__(
        self, source: BatchSource, step_examples: int, part: tuple[int, int] = (0, 1)
    ) -> None:
        self._source = source
        self._rank, self._ranks = part
        self._step_batches = step_examples // source.batch_size
        self.order = BatchOrder(source.batches // self._step_batches, step_examples, part)
        fitting = WINDOW_BYTES // max(1, step_examples * example_bytes(source))
        self._window_steps = max(1, min(fitting, WINDOW_BATCHES, self.order.steps))
        self._windows = -(-self.order.steps // self._window_steps)
        self._stream: Iterator[Any] | None = None
        self._next = 0
        """The number of the next window of the stream."""
        self._error: Exception | None = None
        """An error of the source, which tf.data would replace by one of its own."""
        self._current: tuple[int, Batch] | None = None

    def window(self, epoch: int, batch: int) -> Window:
        """Some steps of the epoch; all windows have the same length, the last one is padded."""
        number = epoch * self._windows + batch // self._window_steps
        if self._current is None or self._current[0] != number:
            self._current = (number, self._read(number))
        first = (number % self._windows) * self._window_steps
        return Window(self._current[1], first, min(first + self._window_steps, self.order.steps))

    def _read(self, number: int) -> Batch:
        if self._stream is None or number != self._next:
            self._stream = self._stream_from(number)
        try:
            parts = next(self._stream)
        except tf.errors.OpError:
            if self._error is None:
                raise
            raise self._error from None
        self._next = number + 1
        window: Batch = tf.nest.pack_sequence_as(self._source.spec, parts)
        return window

    def _stream_from(self, number: int) -> Iterator[Any]:
        if number and not self._source.can_rewind:
            raise IncompatibleCheckpoint(
                f"The data cannot be read again from step {self._first_step(number)}: a generator "
                "only goes forward, so this run cannot resume. Give the data as arrays, as a "
                "keras.utils.PyDataset or as a tf.data.Dataset with an end, or start a new run."
            )
        size = self._window_steps * self.order.step_examples
        specs = [tf.TensorSpec((size, *spec.shape), spec.dtype) for spec in self._source.spec.parts]
        windows = tf.data.Dataset.from_generator(
            lambda: self._read_from(number), output_signature=tuple(specs)
        )
        stream: Iterator[Any] = iter(windows.prefetch(PREFETCH_WINDOWS))
        return stream

    def _first_step(self, number: int) -> int:
        epoch, window = divmod(number, self._windows)
        return epoch * self.order.steps + window * self._window_steps

    def _read_from(self, number: int) -> Iterator[tuple[NDArray[Any], ...]]:
        try:
            yield from self._windows_from(number)
        except Exception as error:
            self._error = error
            raise

    def _windows_from(self, number: int) -> Iterator[tuple[NDArray[Any], ...]]:
        """The parts of the windows from this one on, without end."""
        epoch, window = divmod(number, self._windows)
        while True:
            first = window * self._window_steps
            batches = self._source.epoch(epoch, first * self._step_batches)
            for start, steps in self._steps_of_windows(first):
                index = start * self._step_batches
                batches_of_window = self._whole(batches, index, steps * self._step_batches)
                yield self._joined(self._own(batches_of_window))
            # The rest of the epoch is read, since a source may act at its end.
            deque(batches, maxlen=0)
            epoch, window = epoch + 1, 0

    def _steps_of_windows(self, first: int) -> Iterator[tuple[int, int]]:
        """The first step of each window from this step on, and how many it has."""
        for start in range(first, self.order.steps, self._window_steps):
            yield start, min(self._window_steps, self.order.steps - start)

    def _whole(self, batches: Iterator[Batch], first: int, count: int) -> list[Batch]:
        """The next `count` batches of an epoch, from the one with index `first` on.

        Raises:
            InvalidData: The epoch ends before, or a batch is smaller than the first one.
        """
        window = list(islice(batches, count))
        size = self._source.batch_size
        for index, batch in enumerate(window, start=first):
            if (rows := len(batch.parts[0])) != size:
                raise InvalidData(
                    self._source.name,
                    f"batch {index}",
                    expected=f"{size} examples, as in the first batch (one smaller batch after the "
                    "last step of an epoch is left out: lower steps_per_epoch, or make batches "
                    "with drop_remainder=True)",
                    received=str(rows),
                )
        if len(window) < count:
            raise InvalidData(
                self._source.name,
                f"batch {first + len(window)}",
                expected=f"{self._source.batches} batches in an epoch, as steps_per_epoch says",
                received="the end of the data",
            )
        return window

    def _own(self, batches: list[Batch]) -> list[Batch]:
        """The batches of this rank, among those of whole steps."""
        count = self._step_batches // self._ranks
        first = self._rank * count
        return [
            batch
            for start in range(first, len(batches), self._step_batches)
            for batch in batches[start : start + count]
        ]

    def _joined(self, batches: list[Batch]) -> tuple[NDArray[Any], ...]:
        size = self._window_steps * self.order.step_examples
        parts = [
            np.concatenate(rows) for rows in zip(*(batch.parts for batch in batches), strict=True)
        ]
        missing = size - len(parts[0])
        return tuple(
            np.pad(part, [(0, missing)] + [(0, 0)] * (part.ndim - 1)) if missing else part
            for part in parts
        )
