"""Sends the entries of a run from a thread of its own, and keeps its lease while there are none."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from ampclient.errors import (
    AmpcoreError,
    BadRequest,
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    PayloadTooLarge,
    StatusError,
    Unauthorized,
)
from ampclient.tracking.entries import PendingEntry, event_entry
from ampclient.tracking.file_outbox import FileOutbox
from ampclient.tracking.outbox import Outbox
from ampclient.tracking.run_api import RunApi
from ampspec.api.runs import RunStatus
from ampspec.jobs.states import State

log = logging.getLogger(__name__)

SEND_INTERVAL_S: Final = 0.5
"""How long rows are collected for a block."""
HEARTBEAT_S: Final = 30.0
"""A run is lost after 300 s without a request."""
FIRST_DELAY_S: Final = 1.0
MAX_DELAY_S: Final = 30.0
"""The delays between attempts to reach the server: doubled with each failure."""

PERMANENT_ERRORS: Final = (NotFound, Unauthorized, Forbidden)
"""The run is deleted, or the token is no longer valid: nothing more can be sent."""
REFUSED_ERRORS: Final = (BadRequest, InvalidRequest, PayloadTooLarge)
"""The server will never accept these entries."""


class Sender:
    """Sends what `collect` adds to the outbox; no error leaves it.

    Args:
        api: The requests about the run.
        outbox: The entries to send.
        collect: Encodes the rows so far into the outbox.
        status: What the server has of the run; None if it could not be asked so far.
    """

    def __init__(
        self,
        api: RunApi,
        outbox: Outbox | FileOutbox,
        collect: Callable[[], None],
        status: RunStatus | None,
    ) -> None:
        self.cancel_requested = False
        """Whether a user has asked the run to stop."""
        self.has_stopped = False
        """True once nothing more can be sent: the run has ended, or the token is not valid."""
        self.entries = 0
        """How many entries the server has stored."""
        self._is_connected = False
        self.total_steps: int | None = None
        """To be sent with the next upload."""
        self._api, self._outbox, self._collect = api, outbox, collect
        self._failures = 0
        self._sent_at = time.monotonic()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ampcore-sender", daemon=True)
        if status is not None:
            self._begin(status)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self, timeout_s: float) -> bool:
        """Send what is left; False if that took longer than the timeout."""
        self._closing.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self.has_stopped = True  # the thread ends after its current request
            return False
        return not self.has_stopped

    def _run(self) -> None:
        try:
            while not self.has_stopped:
                is_last = self._closing.wait(self._wait_s())
                self._collect()
                self._send_all()
                if is_last and self._is_connected and not len(self._outbox):
                    return
                if is_last:  # `close` waits, so do not hurry
                    time.sleep(min(self._delay_s(), FIRST_DELAY_S))
        except RuntimeError as error:  # httpx: the client was closed before the run
            log.warning("tracking has stopped: %s", error)
            self._stop()
        except Exception:  # a bug here must not end the training, nor pass unseen
            log.exception("tracking has stopped because of an unexpected error")
            self._stop()

    def _wait_s(self) -> float:
        return self._delay_s() or SEND_INTERVAL_S

    def _delay_s(self) -> float:
        if not self._failures:
            return 0.0
        return float(min(FIRST_DELAY_S * 2 ** min(self._failures - 1, 10), MAX_DELAY_S))

    def _send_all(self) -> None:
        """Send batches until none is left or one fails."""
        while not self.has_stopped and (self._is_connected or self._connect()):
            batch = self._outbox.take_batch()
            if not batch and self._report_dropped():
                continue
            is_due = time.monotonic() - self._sent_at >= HEARTBEAT_S
            if not batch and self.total_steps is None and not is_due:
                return
            if not self._send(batch) or not batch:
                return

    def _connect(self) -> bool:
        """Create or continue the run; False if that must be repeated later."""
        try:
            status = self._api.connect()
        except (*PERMANENT_ERRORS, *REFUSED_ERRORS, Conflict) as error:
            log.warning("tracking has stopped: %s", error)
            self._stop()
            return False
        except AmpcoreError as error:
            self._count_failure(error)
            return False
        self._begin(status)
        return True

    def _begin(self, status: RunStatus) -> None:
        self._is_connected = True
        self._outbox.align(status.entries)
        self._accept(status)

    def _send(self, batch: list[PendingEntry]) -> bool:
        """Send one upload; False if it must be repeated later."""
        total_steps = self.total_steps
        documents = [entry.document for entry in batch]
        try:
            status = self._api.upload(self.entries, documents, total_steps)
        except Conflict as error:
            return self._resolve(error)
        except PERMANENT_ERRORS as error:
            log.warning("tracking has stopped: %s", error)
            self._stop()
            return False
        except REFUSED_ERRORS as error:
            log.warning("the server refuses %d entries, which are dropped: %s", len(batch), error)
            self._outbox.refuse_batch()
            return True
        except AmpcoreError as error:
            self._count_failure(error)
            return False
        if total_steps == self.total_steps:
            self.total_steps = None
        self._outbox.confirm_batch()
        self._accept(status)
        return True

    def _accept(self, status: RunStatus) -> None:
        if self._failures:
            log.info("the server stores the run again")
        self._failures, self._sent_at = 0, time.monotonic()
        self.entries = status.entries
        self.cancel_requested |= status.requested == "cancel"

    def _resolve(self, conflict: Conflict) -> bool:
        """After a conflict: the run has ended, or the server has lost entries (a backup)."""
        try:
            status = self._api.upload(0, [], None)
        except Conflict:
            self.cancel_requested |= self._api.state() is State.CANCELLED
            log.warning("tracking has stopped: %s", conflict)
            self._stop()
            return False
        except AmpcoreError as error:
            self._count_failure(error)
            return False
        if status.entries == self.entries:  # another program sends entries of the same run
            log.warning("%d entries are dropped: %s", len(self._outbox.take_batch()), conflict)
            self._outbox.refuse_batch()
        else:
            self._outbox.align(status.entries)
        self._accept(status)
        return True

    def _count_failure(self, error: AmpcoreError) -> None:
        self._failures += 1
        if self._failures == 1:
            log.warning("the server cannot be reached; the run is kept meanwhile: %s", error)
        if isinstance(error, StatusError) and error.retry_after_s is not None:
            self._failures = max(self._failures, 5)  # the longest delays

    def _report_dropped(self) -> bool:
        """Queue warnings about what was dropped, once all the rest is sent; False if nothing."""
        texts = []
        if dropped := str(self._outbox.take_dropped()):
            texts.append(f"{dropped} were dropped: {self._outbox.drop_reason}.")
        if refused := str(self._outbox.take_refused()):
            texts.append(f"{refused} were dropped: they cannot be stored.")
        for text in texts:
            data = {"code": "telemetry_dropped", "message": text}
            self._outbox.put(event_entry("warning", data))
        return bool(texts)

    def _stop(self) -> None:
        self.has_stopped = True
        self._outbox.discard()
