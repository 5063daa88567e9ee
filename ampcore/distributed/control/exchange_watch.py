"""Notices that this rank waits for the others for too long.

TensorFlow's own timeout of a collective operation keeps a thread until it is over, also if the
operation ends at once: a loop with 500 steps per second would have 30,000 threads with a timeout of
a minute. Here one thread looks at two counters: how many exchanges have begun, and how many ended.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import tensorflow as tf

Tensor = Any

MAX_POLL_S: Final = 0.25
POLLS_PER_TIMEOUT: Final = 8


class ExchangeWatch:
    """A thread that calls a function once if no exchange ends for too long while one has begun.

    Args:
        timeout_s: How long this rank may wait in one exchange.
        on_timeout: Called in the thread.
    """

    def __init__(self, timeout_s: float, on_timeout: Callable[[], None]) -> None:
        self._timeout_s, self._on_timeout = timeout_s, on_timeout
        with tf.device("CPU:0"):
            self._counters = [tf.Variable(0, trainable=False, dtype=tf.int64) for _ in range(2)]
        self._eager = [0, 0]
        self._is_exchanging = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="exchange-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread, and wait for it: it must not use TensorFlow while the process ends."""
        self._closed.set()
        self._thread.join()

    def exchanged(
        self, tensors: Sequence[Tensor], exchange: Callable[[], list[Tensor]]
    ) -> list[Tensor]:
        """The result of an exchange of these tensors; the wait begins when all of them are known.

        Args:
            tensors: What this rank contributes.
            exchange: Sends and receives; in a function it is traced.
        """
        if tf.executing_eagerly():
            with self._counted():
                return exchange()
        self._count_after(0, tensors)
        results = exchange()
        self._count_after(1, results)
        return results

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._eager[0] += 1
        try:
            yield
        finally:
            self._eager[1] += 1

    def _count_after(self, index: int, tensors: Sequence[Tensor]) -> None:
        with tf.control_dependencies(list(tensors)):
            tf.raw_ops.AssignAddVariableOp(
                resource=self._counters[index].handle, value=tf.constant(1, tf.int64)
            )

    def is_exchanging(self) -> bool:
        """Whether an exchange is in progress, as of the last poll: this rank waits for others."""
        return self._is_exchanging

    def _run(self) -> None:
        poll_s = min(MAX_POLL_S, self._timeout_s / POLLS_PER_TIMEOUT)
        # Polls are counted rather than seconds: this process may have been suspended meanwhile.
        last_progress, polls = None, 0
        while not self._closed.wait(poll_s):
            progress = self._progress()
            self._is_exchanging = progress is not None
            polls = polls + 1 if progress is not None and progress == last_progress else 0
            last_progress = progress
            if polls * poll_s >= self._timeout_s:
                self._on_timeout()
                return

    def _progress(self) -> tuple[int, int] | None:
        """How many exchanges have ended; None while none is in progress."""
        begun, ended = (int(counter.numpy()) for counter in self._counters)
        eager_begun, eager_ended = self._eager
        if begun == ended and eager_begun == eager_ended:
            return None
        return ended, eager_ended
