"""Writes the rows of a run that goes on to a mirror, from a thread that nothing waits for."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from ampclient.mirrors.mirror import Mirror, MirrorEnd, MirrorRow, MirrorStart
from ampspec.documents.text import plural

log = logging.getLogger(__name__)

MAX_ROWS: Final = 100_000
"""Rows that wait for a slow mirror; further ones are left out, and counted."""
BATCH_ROWS: Final = 1000


class LiveMirror:
    """Passes rows to a mirror. An error ends the mirror, is said once, and leaves no other trace.

    Args:
        mirror: Where they go.
        start: How the run begins there.
        on_problem: Called with a sentence that says what the mirror lacks.
    """

    def __init__(
        self, mirror: Mirror, start: MirrorStart, on_problem: Callable[[str], object]
    ) -> None:
        self._mirror, self._start, self._on_problem = mirror, start, on_problem
        self._rows: deque[MirrorRow] = deque()
        self._end: MirrorEnd | None = None
        self._left_out = 0
        self._has_failed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="ampcore-mirror", daemon=True)
        self._thread.start()

    def put(self, rows: Sequence[MirrorRow]) -> None:
        """Pass rows on; this never waits."""
        with self._changed:
            if self._has_failed:
                return
            free = max(MAX_ROWS - len(self._rows), 0)
            self._left_out += max(len(rows) - free, 0)
            self._rows.extend(rows[:free])
            self._changed.notify()

    def close(self, end: MirrorEnd, timeout_s: float) -> None:
        """End the mirror; what it could not write in this time it lacks."""
        with self._changed:
            self._end = end
            self._changed.notify()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self._fail(f"it took longer than {timeout_s:g} s")

    def _run(self) -> None:
        try:
            self._mirror.begin(self._start)
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._rows or self._end is not None)
                    rows = [self._rows.popleft() for _ in range(min(len(self._rows), BATCH_ROWS))]
                if not rows:
                    break
                self._mirror.write(rows)
            if self._end is not None:
                self._mirror.end(self._end)
        except Exception as error:  # whatever the library of the other tool raises
            self._fail(f"{type(error).__name__}: {error}")
            return
        if self._left_out:
            left_out = plural(self._left_out, "row")
            verb = "was" if self._left_out == 1 else "were"
            self._report(f"it is slower than the program: {left_out} {verb} left out")

    def _fail(self, reason: str) -> None:
        with self._changed:
            if self._has_failed:
                return
            self._has_failed = True
            self._rows.clear()
        self._report(f"it has stopped: {reason[:500]}")

    def _report(self, reason: str) -> None:
        text = (
            f"The mirror to {self._mirror.place} is not complete: {reason}. The run itself has "
            f"everything; write all of it there later with `ampctl run mirror ID "
            f"{self._mirror.command}`."
        )
        log.warning("%s", text)
        self._on_problem(text)
