"""Keep children running: start one again that ended by itself, later and later."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from server.embedded.process import Child

log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 0.25
FIRST_DELAY_S: Final = 0.5
LONGEST_DELAY_S: Final = 30.0
STABLE_S: Final = 60.0
"""A child that ran for so long starts with the first delay again."""


@dataclass
class Watch:
    """One child: when it was started, and when it may be started again.

    `on_end` is called when it ended by itself, before it starts again. One that `drains` stays
    down when it ended with 0: somebody asked it to.
    """

    child: Child
    grace_s: float
    drains: bool = False
    on_end: Callable[[], None] = lambda: None
    started_at: float = 0.0
    delay_s: float = FIRST_DELAY_S
    is_down: bool = False
    restart_at: float | None = None


class Keeper:
    """A thread that watches children and, when stopped, ends them, the last one first."""

    def __init__(self, watches: Sequence[Watch]) -> None:
        self._watches = watches
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)

    def start(self) -> None:
        """Begin to watch children that run."""
        for watch in self._watches:
            watch.started_at = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """End the children, then the thread."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            for watch in self._watches:
                _look(watch)
        # In this thread: a child that it started is killed the moment the thread ends.
        for watch in reversed(self._watches):
            watch.child.stop(watch.grace_s)


def _look(watch: Watch) -> None:
    """Plan the restart of a child that has ended; carry it out once its time has come."""
    now = time.monotonic()
    if watch.is_down or watch.child.running:
        return
    if watch.drains and watch.child.exit_code == 0:
        watch.is_down = True
        log.warning("%s was drained; it stays down until the server starts again", watch.child.name)
        watch.on_end()
    elif watch.restart_at is None:
        if now - watch.started_at > STABLE_S:
            watch.delay_s = FIRST_DELAY_S
        watch.restart_at = now + watch.delay_s
        name, code = watch.child.name, watch.child.exit_code
        log.warning("%s ended (%s); it starts again in %g s", name, code, watch.delay_s)
        watch.on_end()
        watch.delay_s = min(2 * watch.delay_s, LONGEST_DELAY_S)
    elif now >= watch.restart_at:
        watch.restart_at = None
        watch.started_at = now
        try:
            watch.child.start()
        except OSError as error:
            log.warning("%s does not start: %s", watch.child.name, error)
