"""Wait on a condition, with a deadline and a name for what did not come."""

import time
from collections.abc import Callable
from typing import Any


def wait_until(condition: Callable[[], Any], timeout_s: float = 60.0, what: str = "") -> Any:
    """Wait for a condition to hold, and return what it returned; fails after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not (result := condition()):
        assert time.monotonic() < deadline, f"not in {timeout_s:g} s: {what or condition}"
        time.sleep(0.05)
    return result
