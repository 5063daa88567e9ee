"""Wait for a condition, with one deadline for all tests and a failure that shows the state."""

import inspect
import os
import threading
import time
from collections.abc import Callable
from typing import Any

DEADLINE_S = float(os.environ.get("AMPCORE_TEST_DEADLINE_S", "180"))
"""The deadline of every wait: long enough for a slow and busy machine. Only a failing test
reaches it."""
POLL_S = 0.02


def wait_until(
    condition: Callable[[], Any], what: str = "", *, show: Callable[[], Any] | None = None
) -> Any:
    """Wait for a condition to hold, and return what it returned.

    Args:
        condition: Called repeatedly until its result is true.
        what: A description of the condition for the failure message.
        show: Called after the deadline; its result is added to the message.
    """
    deadline = time.monotonic() + DEADLINE_S
    while not (result := condition()):
        assert time.monotonic() < deadline, _failure(condition, what, result, show)
        time.sleep(POLL_S)
    return result


def join(*threads: threading.Thread) -> None:
    """Wait for threads to end."""
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive(), f"the thread {thread.name} still runs after {DEADLINE_S:g} s"


def _failure(
    condition: Callable[[], Any], what: str, result: Any, show: Callable[[], Any] | None
) -> str:
    seen = {"last answer": result, **inspect.getclosurevars(condition).nonlocals}
    if show is not None:
        seen["state"] = show()
    lines = [f"{name}: {value!r}" for name, value in seen.items()]
    return "\n  ".join([f"not true within {DEADLINE_S:g} s: {what or _source(condition)}", *lines])


def _source(condition: Callable[[], Any]) -> str:
    try:
        return inspect.getsource(condition).strip()
    except (OSError, TypeError):
        return repr(condition)
