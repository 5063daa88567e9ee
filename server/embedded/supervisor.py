"""Supervisor of child processes: restarts one that ended, with exponential backoff."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from server.embedded.child_process import ChildProcess

log = logging.getLogger(__name__)

POLL_INTERVAL_S: Final = 0.25
FIRST_DELAY_S: Final = 0.5
MAX_DELAY_S: Final = 30.0
DELAY_RESET_S: Final = 60.0
"""After a child has run this long, its delay is reset."""


@dataclass
class SupervisedChild:
    """One child: when it was started, and when it is to be restarted.

    `on_end` is called when it has ended by itself, before its restart. If it `drains` and ended
    with exit code 0, it was drained and is not restarted.
    """

    child: ChildProcess
    grace_s: float
    drains: bool = False
    on_end: Callable[[], None] = lambda: None
    started_at: float = 0.0
    delay_s: float = FIRST_DELAY_S
    is_down: bool = False
    restart_at: float | None = None


class Supervisor:
    """A thread that restarts children and, when stopped, stops them in reverse order."""

    def __init__(self, watches: Sequence[SupervisedChild]) -> None:
        self._watches = watches
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)

    def start(self) -> None:
        """Start to supervise running children."""
        for watch in self._watches:
            watch.started_at = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """Stop the children, then the thread."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(POLL_INTERVAL_S):
            for watch in self._watches:
                _check_child(watch)
        # In this thread: a child is killed when the thread that started it ends.
        for watch in reversed(self._watches):
            watch.child.stop(watch.grace_s)


def _check_child(watch: SupervisedChild) -> None:
    """Schedule the restart of a child that has ended, and restart it when it is due."""
    now = time.monotonic()
    if watch.is_down or watch.child.running:
        return
    if watch.drains and watch.child.exit_code == 0:
        watch.is_down = True
        log.warning(
            "%s was drained; it is not restarted until the server restarts", watch.child.name
        )
        watch.on_end()
    elif watch.restart_at is None:
        if now - watch.started_at > DELAY_RESET_S:
            watch.delay_s = FIRST_DELAY_S
        watch.restart_at = now + watch.delay_s
        name, code = watch.child.name, watch.child.exit_code
        log.warning("%s exited (%s); restarting in %g s", name, code, watch.delay_s)
        watch.on_end()
        watch.delay_s = min(2 * watch.delay_s, MAX_DELAY_S)
    elif now >= watch.restart_at:
        watch.restart_at = None
        watch.started_at = now
        try:
            watch.child.start()
        except OSError as error:
            log.warning("cannot start %s: %s", watch.child.name, error)
