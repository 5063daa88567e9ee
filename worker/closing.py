"""The end of an attempt: everything told is written, every file is kept, and then it is said."""

import json
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from store.artifacts import REPORT
from store.retries import RETRIED
from worker.courier import Courier, Parcel
from worker.endings import End, Outcome, broken
from worker.halts import Orders
from worker.patience import Lease
from worker.relay import Relay

log = logging.getLogger(__name__)

POLL_S: Final = 0.25
REPORT_FILE: Final = "report.json"

FINISHED_S: Final = 300.0
"""How long a job that has trained to its end, or failed for good, waits for its files to be in the
storage."""
STOPPED_S: Final = 10.0
"""The same for one that is to stop: somebody waits for it."""
PATIENCE_S: Final = 5.0
"""How long a worker that shuts down still waits for its database."""


@dataclass(frozen=True)
class Closing:
    """Waits for what is still on its way; meanwhile the lease is held."""

    relay: Relay
    courier: Courier
    lease: Lease
    orders: Orders
    folder: Path
    """Where the report is written: not where the trainer could put something in its place."""

    def leave(self, end: End, report: dict[str, Any]) -> None:
        """Write the end behind all that belongs before it. Nothing is written in a lost job."""
        if not self._settled(self.relay.spool.drained, self._patience_s):
            return  # the lease runs out, and another worker goes on from the last checkpoint
        if self.relay.error is not None:
            end = broken(self.relay.error)
        self._keep(report)
        self._settled(self.courier.drained, partial(self._time_for_files_s, end))
        self.courier.give_up()
        job_id, attempt = self.lease.job_id, self.lease.attempt
        self.relay.act(lambda session: end.write(session, job_id, attempt))
        if self._settled(self.relay.spool.drained, self._patience_s):
            log.info("the attempt has ended: %s", end.outcome)

    def _keep(self, report: dict[str, Any]) -> None:
        try:
            text = json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False)
            (self.folder / REPORT_FILE).write_text(text, encoding="utf-8")
        except OSError as error:
            log.warning("the report could not be written: %s", error)
        else:
            self.courier.send(Parcel(REPORT, REPORT_FILE, folder=self.folder))

    def _settled(self, drained: Callable[[float], bool], limit_s: Callable[[], float]) -> bool:
        """Wait for something to be drained; False when it takes too long, or the job is lost."""
        began = time.monotonic()
        while not drained(POLL_S):
            # The limit is asked for anew: somebody may have begun to wait for us.
            if self.relay.is_fenced or time.monotonic() - began > limit_s():
                return False
        return not self.relay.is_fenced

    def _patience_s(self) -> float:
        return PATIENCE_S if self.orders.shutting_down.is_set() else math.inf

    def _time_for_files_s(self, end: End) -> float:
        # Of a job that failed by its own fault no other attempt makes the files.
        is_final = end.outcome is Outcome.SUCCEEDED or (
            end.outcome is Outcome.FAILED and end.reason not in RETRIED
        )
        return FINISHED_S if is_final and self.orders.halt() is None else STOPPED_S
