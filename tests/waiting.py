"""Wait on a condition: one deadline for all tests, and a failure that says what did not come."""

import inspect
import os
import threading
import time
from collections.abc import Callable
from typing import Any

DEADLINE_S = float(os.environ.get("AMPCORE_TEST_DEADLINE_S", "180"))
"""For whatever a test waits for. It says nothing about how long that should take: it is long
enough for a machine that is slow and busy, and only a failing test ever sees its end."""
POLL_S = 0.02


def wait_until(
    condition: Callable[[], Any], what: str = "", *, show: Callable[[], Any] | None = None
) -> Any:
    """Wait for a condition to hold, and return what it returned.

    Args:
        condition: Asked again and again until its answer is true.
        what: What is waited for, in words.
        show: Called where it does not come; what it returns is shown.
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
        assert not thread.is_alive(), f"the thread {thread.name} runs after {DEADLINE_S:g} s"


def _failure(
    condition: Callable[[], Any], what: str, result: Any, show: Callable[[], Any] | None
) -> str:
    seen = {"last answer": result, **inspect.getclosurevars(condition).nonlocals}
    if show is not None:
        seen["state"] = show()
    lines = [f"{name}: {value!r}" for name, value in seen.items()]
    return "\n  ".join([f"not in {DEADLINE_S:g} s: {what or _source(condition)}", *lines])


def _source(condition: Callable[[], Any]) -> str:
    try:
        return inspect.getsource(condition).strip()
    except (OSError, TypeError):
        return repr(condition)
