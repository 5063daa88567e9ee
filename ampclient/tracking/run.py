"""`TrackedRun`: a training that runs in this process, and whose steps go to a server."""

import atexit
import contextlib
import logging
import math
import os
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Literal, Self, SupportsFloat

from ampclient.errors import AmpcoreError
from ampclient.tracking.entries import PendingEntry, event_entry, log_entries
from ampclient.tracking.outbox import Outbox
from ampclient.tracking.rows import RowBuffer
from ampclient.tracking.run_api import RunApi
from ampclient.tracking.sender import Sender
from ampcore.spec.tracked import COLUMN_NAME
from ampcore.telemetry import COLUMNS
from ampcore.telemetry.json_values import json_safe, storable_text
from ampcore.telemetry.scale_health import ScaleBounds

log = logging.getLogger(__name__)

BUFFER_BYTES: Final = 16 * 2**20
"""The default size of what is kept while the server cannot be reached."""
FLUSH_TIMEOUT_S: Final = 30.0
"""The default time that `finish` waits for the server."""
MAX_EXTRAS: Final = 48
"""Columns besides those of every run."""
MAX_EVENT_BYTES: Final = 60_000
MAX_MESSAGE: Final = 2000
MAX_EXAMPLES: Final = 2**31 - 1

Event = Literal["started", "epoch", "evaluation", "warning"]
Outcome = Literal["succeeded", "failed", "cancelled"]


class TrackedRun:
    """A run of this process: `log` takes its steps, and a thread sends them to the server.

    Made by `client.runs.track`. As a context manager it ends the run: as `succeeded`, as `failed`
    after an exception, or as `cancelled` after a KeyboardInterrupt or when a user has cancelled it.
    Without `with`, call `finish`.

    No method waits for the server but `finish`, and none raises an error because of it.

    Args:
        api: The requests about the run.
        run_id: Its id.
        url: Its page in the dashboard.
        buffer_bytes: How much is kept in memory, compressed, while the server cannot be reached.
        flush_timeout_s: How long `finish` waits for the server.
    """

    def __init__(
        self, api: RunApi, run_id: str, url: str, *, buffer_bytes: int, flush_timeout_s: float
    ) -> None:
        self.id, self.url = run_id, url
        self._api, self._flush_timeout_s = api, flush_timeout_s
        self._rows, self._outbox = RowBuffer(), Outbox(buffer_bytes)
        self._sender = Sender(api, self._outbox, self._collect)
        self._encoding = threading.Lock()
        self._extras: set[str] = set()
        self._warned: set[str] = set()
        self._logged_at: float | None = None
        self._ended = False
        self._owner_pid = os.getpid()
        self._summary: dict[str, Any] = {}
        self._sender.start()
        atexit.register(self._finish_at_exit)

    def log(
        self,
        step: int | None = None,
        *,
        loss: SupportsFloat = math.nan,
        loss_scale: SupportsFloat = 1.0,
        skipped: bool = False,
        grad_norm: SupportsFloat | None = None,
        learning_rate: SupportsFloat | None = None,
        examples: int = 0,
        step_time_s: float | None = None,
        **values: SupportsFloat,
    ) -> None:
        """Record one step.

        Rows are numbered one after the other. `step` is the number of the first row; for later
        rows whose own number differs, it is stored in the column `last_step`.

        Args:
            step: The number of the step; None: the next one.
            loss: The unscaled loss. A tensor is converted to a number, which waits for a GPU.
            loss_scale: The scale that the step used; 1 without loss scaling.
            skipped: Whether the step changed nothing, because its gradients were not finite.
            grad_norm: The global norm of the unscaled gradients.
            learning_rate: The learning rate of the step.
            examples: The number of examples of the step.
            step_time_s: Its duration; None: the time since the call before.
            values: Any other numbers, each in a column of its name.
        """
        if self._ended:
            return
        now = time.perf_counter()
        if step_time_s is None:
            step_time_s = 0.0 if self._logged_at is None else now - self._logged_at
        self._logged_at = now
        try:
            row = {
                "loss": float(loss),
                "loss_scale": float(loss_scale),
                "skipped": bool(skipped),
                "step_time_s": step_time_s if 0 <= step_time_s < math.inf else 0.0,
                "examples": min(max(int(examples), 0), MAX_EXAMPLES),
            }
            if grad_norm is not None:
                row["grad_norm"] = float(grad_norm)
            if learning_rate is not None:
                row["learning_rate"] = float(learning_rate)
            for name, value in values.items():
                if name in self._extras or self._is_new_extra(name):
                    row[name] = float(value)
            is_full = self._rows.add(None if step is None else int(step), row)
        except Exception as error:  # whatever a tensor of another library raises
            self._warn("a row that cannot be stored is left out: %s", error)
            return
        if is_full:
            self._collect()

    def event(self, event: Event, data: Mapping[str, Any], *, step: int | None = None) -> None:
        """Add an entry to the event log, after the rows so far.

        Args:
            event: `epoch`, `evaluation`, `warning` (with `code` and `message`) or `started`.
            data: JSON values; non-finite numbers are allowed.
            step: The step it belongs to; None: the last row.
        """
        self._collect()
        last = max(self.next_step - 1, 0)
        try:
            entry = event_entry(event, data, last if step is None else int(step))
        except Exception as error:  # whatever `data` holds
            self._warn("an event that is not JSON is left out: %s", error)
            return
        if entry.size_bytes > MAX_EVENT_BYTES:
            self._warn("an event of more than %d bytes is left out", MAX_EVENT_BYTES)
            return
        self._put(entry)

    def log_text(self, text: str, *, stream: Literal["stdout", "stderr"] = "stdout") -> None:
        """Add text to the log of the run."""
        for entry in log_entries(text, stream):
            self._put(entry)

    def result(
        self,
        *,
        final_loss: float | None = None,
        val_loss: float | None = None,
        val_accuracy: float | None = None,
        parameters: int | None = None,
        peak_memory_bytes: int | None = None,
    ) -> None:
        """Set results of the run, which are stored when it ends; None keeps what was set before."""
        given = {"final_loss": final_loss, "val_loss": val_loss, "val_accuracy": val_accuracy}
        counts = {"parameters": parameters, "peak_memory_bytes": peak_memory_bytes}
        self._summary |= {name: float(one) for name, one in given.items() if one is not None}
        self._summary |= {name: int(one) for name, one in counts.items() if one is not None}

    def expect_steps(self, total_steps: int) -> None:
        """Tell how many rows the run will have, for the progress bar."""
        if total_steps >= 1:
            self._sender.total_steps = int(total_steps)

    def use_scale_bounds(self, bounds: ScaleBounds | None) -> None:
        """Judge the health of the loss scale by its bounds; None: the scale is fixed."""
        self._rows.use_bounds(bounds)

    @property
    def next_step(self) -> int:
        """The number of the next row."""
        return self._rows.next_step

    @property
    def cancel_requested(self) -> bool:
        """Whether a user has cancelled the run: end the training soon."""
        return self._sender.cancel_requested

    def finish(self, state: Outcome | None = None, message: str | None = None) -> None:
        """Send what is left, and end the run; later calls do nothing.

        Args:
            state: None: `cancelled` if a user has cancelled the run, else `succeeded`.
            message: Why the run failed or was cancelled.
        """
        if self._ended or os.getpid() != self._owner_pid:
            return
        self._ended = True
        atexit.unregister(self._finish_at_exit)
        self._collect(is_last=True)
        has_stopped = self._sender.has_stopped  # which was logged, with the reason
        if not self._sender.close(self._flush_timeout_s):
            if not has_stopped:
                log.warning(
                    "the run %s could not be sent completely; the server will report it as lost",
                    self.id,
                )
            return
        default: Outcome = "cancelled" if self.cancel_requested else "succeeded"
        end = {
            "state": state or default,
            "entries": self._sender.entries,
            "message": None if message is None else storable_text(message)[:MAX_MESSAGE],
            "summary": json_safe(self._summary),
        }
        try:
            self._api.finish(end)
        except (AmpcoreError, RuntimeError) as error:  # RuntimeError: the client was closed before
            log.warning("the end of the run %s could not be stored: %s", self.id, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.finish()
        elif isinstance(error, KeyboardInterrupt):
            self.finish("cancelled", "Interrupted by Ctrl-C.")
        else:
            self.finish("failed", f"{type(error).__name__}: {error}")

    def __repr__(self) -> str:
        return f"<TrackedRun {self.id} {self.url}>"

    def _finish_at_exit(self) -> None:
        with contextlib.suppress(Exception):  # the interpreter is shutting down
            self.finish("failed", "The program ended without calling finish().")

    def _collect(self, *, is_last: bool = False) -> None:
        if os.getpid() != self._owner_pid:  # a fork has no thread that sends
            self._ended = True
            return
        try:
            with self._encoding:  # so that blocks are queued in the order of their steps
                for entry in self._rows.encode():
                    self._put(entry)
                for entry in self._rows.encode_last_events() if is_last else ():
                    self._put(entry)
        except Exception:  # a bug here must not end the training, nor pass unseen
            if "encode" not in self._warned:
                self._warned.add("encode")
                log.exception("rows of the run %s are lost", self.id)

    def _put(self, entry: PendingEntry) -> None:
        if not self._outbox.put(entry):
            self._warn("the server cannot be reached, and the buffer is full: old steps are lost")

    def _is_new_extra(self, name: str) -> bool:
        if len(self._extras) >= MAX_EXTRAS or name in COLUMNS or not COLUMN_NAME.fullmatch(name):
            self._warn(
                "the value %.100r is left out: expected at most %d further names that match %s",
                name,
                MAX_EXTRAS,
                COLUMN_NAME.pattern,
            )
            return False
        self._extras.add(name)
        return True

    def _warn(self, text: str, *values: object) -> None:
        """Log a warning; each kind of warning once."""
        if text not in self._warned:
            self._warned.add(text)
            log.warning(text, *values)
