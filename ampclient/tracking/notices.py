"""What a run warns of: in the log of the program, and as events of the run."""

import logging
from collections.abc import Iterator
from typing import Any

from ampclient.tracking.entries import LoggedSteps, PendingEntry, event_entry
from ampclient.tracking.file_outbox import FileOutbox
from ampclient.tracking.outbox import Outbox
from ampclient.tracking.row_values import RowValues
from ampclient.tracking.rows import RowBuffer

log = logging.getLogger(__name__)


class RunNotices:
    """Warnings about a run; each kind of warning comes once.

    Args:
        values: Counts the values that are left out.
        rows: Counts the steps that are numbered on.
    """

    def __init__(self, values: RowValues, rows: RowBuffer) -> None:
        self._values, self._rows = values, rows
        self._has_reported_renumbering = False
        self._warned: set[str] = set()

    def warn(self, text: str, *values: object) -> None:
        """Log a warning, unless one with this text was logged."""
        if text not in self._warned:
            self._warned.add(text)
            log.warning(text, *values)

    def warn_of_error(self, text: str) -> None:
        """Log the error that is handled now, unless one with this text was logged."""
        if text not in self._warned:
            self._warned.add(text)
            log.exception("%s", text)

    def warn_of_restart(self, earlier: LoggedSteps, step: int) -> None:
        """Say that a continued run is counted from its first step again."""
        self.warn(
            "the continued run has the steps from %s to %d, and this program counts from %d again: "
            "its steps are numbered on. If it trains them again, continue the run with "
            "from_step=%d; if it goes on, add the first run.next_step to its steps",
            *(earlier.first, earlier.end - 1, step, step),
        )

    def incomplete(self, outbox: Outbox | FileOutbox) -> dict[str, Any]:
        """What is not stored as it was logged, for the result; empty if everything is."""
        counts = {
            "values": self._values.dropped.total,
            "steps": outbox.dropped_steps,
            "events_and_logs": outbox.dropped_others,
        }
        facts: dict[str, Any] = {"dropped": counts} if any(counts.values()) else {}
        return facts | ({"renumbered_steps": n} if (n := self._rows.renumbered) else {})

    def entries(self, *, is_last: bool) -> Iterator[PendingEntry]:
        """Events about values that were left out and steps that were numbered on."""
        step = max(self._rows.next_step - 1, 0)
        yield from self._values.dropped.take_entries(step, is_last=is_last)
        if (count := self._rows.renumbered) and (is_last or not self._has_reported_renumbering):
            steps = "A step has" if count == 1 else f"{count} steps have"
            text = (
                f"{steps} a number that is not above that of the step before. Such steps are "
                "numbered on; the column logged_step has the numbers that the program gave."
            )
            if not self._has_reported_renumbering:
                log.warning("%s", text)
            if not self._has_reported_renumbering or count > 1:
                data = {"code": "steps_renumbered", "count": count, "message": text}
                yield event_entry("warning", data, step)
            self._has_reported_renumbering = True
