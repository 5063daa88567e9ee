"""Turns the errors of allocations that failed, whatever library raised them, into OutOfMemory."""

import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ampspec.documents.allocation_messages import THREAD_FAILED, allocation_failure
from ampspec.errors import OutOfMemory

STATUS: Final = Path("/proc/self/status")
FRAMES: Final = ("Exception encountered when calling", "Graph execution error", "\x1b", "Arguments")
"""How Keras and TensorFlow open, and continue, a message without details."""
NEARLY_ALL: Final = 0.9
"""A process that has allocated this share of its limit has no memory for further threads."""
EXHAUSTED: Final = "ResourceExhaustedError"
"""TensorFlow's error; by name, since this module does not load TensorFlow."""


def out_of_memory(error: BaseException, place: str | None = None) -> OutOfMemory | None:
    """The error as OutOfMemory, if an allocation failed; None for every other error.

    Args:
        error: The error, of any library. Errors that it was raised from count, too.
        place: Where in the code of a bundle it was raised: "net.py:14 in build".
    """
    detail = next(filter(None, map(_detail, _with_causes(error))), None)
    if detail is None:
        return None
    where = "" if place is None else f"{place}: "
    return OutOfMemory(
        f"{where}Out of memory ({detail}): lower data.batch_size, or use a smaller model or less "
        "data."
    )


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """The error, and those that it was raised from, or while handling them.

    An allocation that fails while a file is written may end as "I/O operation on closed file".
    """
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _detail(error: BaseException) -> str | None:
    """The line of its message that says so; None if no allocation failed."""
    text = str(error)
    if (line := allocation_failure(text)) is not None:
        return line
    if isinstance(error, MemoryError) or _is_exhausted(error):
        lines = (line.strip() for line in text.splitlines())
        messages = (line for line in lines if line and not line.startswith(FRAMES))
        return next(messages, type(error).__name__)
    if isinstance(error, RuntimeError) and THREAD_FAILED.search(text) and _is_nearly_full():
        return f"{text.strip()}: there is no memory for its stack"
    return None


def _is_exhausted(error: BaseException) -> bool:
    is_exhausted = any(base.__name__ == EXHAUSTED for base in type(error).__mro__)
    return is_exhausted and "larger than max" not in str(error)


def _is_nearly_full() -> bool:
    """Whether this process has allocated nearly all that it may (RLIMIT_DATA)."""
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if limit == resource.RLIM_INFINITY:
        return False
    try:
        lines = STATUS.read_text(encoding="ascii", errors="replace").splitlines()
        [kilobytes] = [int(line.split()[1]) for line in lines if line.startswith("VmData:")]
    except (OSError, ValueError):
        return False
    return kilobytes * 1024 >= NEARLY_ALL * limit
