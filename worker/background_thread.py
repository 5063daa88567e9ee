"""Run slow work in a daemon thread, so that the calling thread can continue polling."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


def run_in_background(work: Callable[[], T]) -> Future[T]:
    """Start the work in a daemon thread: neither the caller nor the process's exit waits for it."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # raised by Future.result()
            future.set_exception(error)

    threading.Thread(target=copy_context().run, args=[run], daemon=True).start()
    return future
