"""Work that takes long, done in a thread beside the one that must stay alert."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


def aside(work: Callable[[], T]) -> Future[T]:
    """Begin the work; who asks for the result may stop waiting, and no end of ours waits for it."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # it is raised where the result is asked for
            future.set_exception(error)

    threading.Thread(target=copy_context().run, args=[run], daemon=True).start()
    return future
