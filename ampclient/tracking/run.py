"""`TrackedRun`: a training that runs in this process, and whose steps go to a server."""

import atexit
import contextlib
import logging
import os
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Literal, Self, SupportsFloat, SupportsInt

from ampclient.errors import AmpcoreError
from ampclient.tracking.entries import (
    LoggedSteps,
    PendingEntry,
    attempt_entry,
    event_entry,
    log_entries,
)
from ampclient.tracking.file_outbox import FileOutbox
from ampclient.tracking.notices import RunNotices
from ampclient.tracking.outbox import Outbox
from ampclient.tracking.row_values import RowValues
from ampclient.tracking.rows import RowBuffer
from ampclient.tracking.run_api import RunApi
from ampclient.tracking.run_folder import RunFolder
from ampclient.tracking.run_mirrors import RunMirrors
from ampclient.tracking.run_pictures import RunPictures
from ampclient.tracking.sender import Sender
from ampclient.tracking.watched import Watched, watched
from ampspec.api.runs import RunStatus
from ampspec.telemetry.json_values import json_safe, storable_text
from ampspec.telemetry.process_usage import EVERY_S, ProcessUsage
from ampspec.telemetry.scale_health import ScaleBounds

log = logging.getLogger(__name__)

BUFFER_BYTES: Final = 16 * 2**20
"""The default size of what is kept while the server cannot be reached."""
FLUSH_TIMEOUT_S: Final = 30.0
"""The default time that `finish` waits for the server."""
MAX_EVENT_BYTES: Final = 60_000
MAX_MESSAGE: Final = 2000

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
        status: What the server has of the run; None if it could not be reached so far.
        outbox: Keeps what is not sent yet.
        folder: Where the run is kept, too; None: in memory alone.
        mirrors: Also write it to other tools.
        flush_timeout_s: How long `finish` waits for the server.
    """

    def __init__(
        self,
        api: RunApi,
        status: RunStatus | None,
        outbox: Outbox | FileOutbox,
        *,
        folder: RunFolder | None = None,
        mirrors: RunMirrors | None = None,
        flush_timeout_s: float = FLUSH_TIMEOUT_S,
    ) -> None:
        self._api, self._flush_timeout_s = api, flush_timeout_s
        self._rows, self._outbox, self._folder = RowBuffer(), outbox, folder
        self._logged_steps: LoggedSteps | None = outbox.logged_steps(status)
        """The steps of earlier programs; None once this one has logged a step."""
        self._rows.next_step = self._logged_steps.end
        self._sender = Sender(api, outbox, self._collect, status)
        self._encoding = threading.Lock()
        self._values = RowValues()
        self._notices = RunNotices(self._values, self._rows)
        self._pictures = RunPictures(self._put, self._values.dropped, self._notices)
        self._logged_at: float | None = None
        self._ended = False
        self._owner_pid = os.getpid()
        self._summary: dict[str, Any] = {}
        self._watched: list[Watched] = []
        self._usage = ProcessUsage()
        self._mirrors = mirrors
        if mirrors is not None:
            mirrors.begin(self._rows, lambda entry: None if self._ended else self._put(entry))
        self._sender.start()
        atexit.register(self._finish_at_exit)

    @property
    def id(self) -> str | None:
        """The id of the run; None as long as the server that creates it cannot be reached."""
        return self._api.run_id

    @property
    def url(self) -> str | None:
        """Its page in the dashboard; None as long as it has no id."""
        return self._api.url

    def watch(self, *things: Any, usage_every_s: float | None = EVERY_S) -> Self:
        """Add columns to each row without further code.

        Of a torch.amp.GradScaler `loss_scale` and `skipped`, whether a step since the row before
        was skipped; of a torch.optim.Optimizer `learning_rate`. A value that `log` is given comes
        first. Also without this method, a row has the processor, memory and GPU that the process
        takes each 10 seconds.

        Args:
            things: The objects.
            usage_every_s: Seconds between two samples of what the process takes; None: none.

        Raises:
            TypeError: A thing is none of these.
        """
        self._watched += [watched(thing) for thing in things]
        self._usage = ProcessUsage(usage_every_s)
        return self

    def log(
        self,
        step: SupportsInt | None = None,
        *,
        loss: SupportsFloat | None = None,
        loss_scale: SupportsFloat | None = None,
        skipped: bool | None = None,
        grad_norm: SupportsFloat | None = None,
        learning_rate: SupportsFloat | None = None,
        examples: SupportsFloat | None = None,
        step_time_s: SupportsFloat | None = None,
        **values: SupportsFloat | None,
    ) -> None:
        """Record one step.

        Steps keep their numbers: they may begin anywhere and have gaps. Further calls with the
        number of the last step add columns to it. Steps ascend: one whose number is not above the
        last one, or which has other values for columns of the last one, is stored as the step
        after it, and its number in the column `logged_step`; an event of the run says so.

        None is an empty cell; NaN and the infinities are stored. A value that is no number is left
        out of its row: a log message and an event say which, and the result of the run counts them.

        Args:
            step: The number of the step; None: the next one.
            loss: The unscaled loss. A tensor is converted to a number, which waits for a GPU.
            loss_scale: The scale that the step used; None: that of the step before, at first 1.
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
        since_last = 0.0 if self._logged_at is None else now - self._logged_at
        self._logged_at = now
        logged = {
            "loss": loss,
            "loss_scale": loss_scale,
            "skipped": skipped,
            "grad_norm": grad_norm,
            "learning_rate": learning_rate,
            "examples": examples,
            "step_time_s": step_time_s,
            **values,
        }
        columns: dict[str, Any] = dict(self._usage.sample_if_due())
        for thing in self._watched:
            columns |= thing.columns()
        columns |= {name: value for name, value in logged.items() if value is not None}
        row, reasons = self._values.row(logged | columns)
        row.setdefault("step_time_s", since_last)
        for name, reason in reasons:
            log.warning("a value of %r is left out: %s", name, reason)
        number, logged_step = self._values.step_or_next(step)
        self._find_restart(number)
        if self._rows.add(number, row, logged_step):
            self._collect()

    def _find_restart(self, step: int | None) -> None:
        """With the first step of this program: go on from there, if the run has it already."""
        earlier, self._logged_steps = self._logged_steps, None
        if earlier is None or earlier.first is None or step is None or step >= earlier.end:
            return
        if step > earlier.first:
            self.go_on_from(step)
        else:  # it trains the run again, or counts from there in each process
            self._notices.warn_of_restart(earlier, step)

    def go_on_from(self, step: int) -> None:
        """The next row has this number; steps from there on that the run has are replaced.

        They are kept as those of an earlier attempt. Call it before the first row of the program.
        `track` and `resume` do so with `from_step`.
        """
        self._logged_steps = None
        if step < self._rows.next_step:
            log.info("the run goes on from step %d; it had %d", step, self._rows.next_step)
            self._put(attempt_entry(step))
        self._rows.next_step = step

    def event(self, event: Event, data: Mapping[str, Any], *, step: int | None = None) -> None:
        """Add an entry to the event log, after the rows so far.

        Args:
            event: `epoch`, `evaluation`, `warning` (with `code` and `message`) or `started`.
            data: JSON values; non-finite numbers are allowed. Of an evaluation: its `epoch`,
                counted from 0, and its metrics, whose names begin with `val_`.
            step: The step it belongs to; None: the last row.
        """
        self._collect()
        last = max(self.next_step - 1, 0)
        try:
            entry = event_entry(event, data, last if step is None else int(step))
        except Exception as error:  # whatever `data` holds
            self._notices.warn("an event that is not JSON is left out: %s", error)
            self._outbox.refuse(event_entry(event, {}))
            return
        if entry.size_bytes > MAX_EVENT_BYTES:
            self._notices.warn("an event of more than %d bytes is left out", MAX_EVENT_BYTES)
            self._outbox.refuse(entry)
            return
        self._put(entry)
        if event == "evaluation" and self._mirrors is not None:
            self._mirrors.put_evaluation(last if step is None else int(step), data)

    def log_image(self, name: str, image: Any, *, step: int | None = None) -> None:
        """Add a picture to the run, which its page shows by name and step.

        What is no picture, or has more than 2 MiB as a file, is left out as values are. A run has
        at most 1,000 pictures.

        Args:
            name: Its name: letters, digits and `_.-`, in parts between slashes.
            image: The path of a PNG or JPEG file; an image of Pillow; or an array of shape (height,
                width) or (height, width, channels), of integers to 255 or floats from 0 to 1.
            step: The step it belongs to; None: the last row.
        """
        if not self._ended:
            self._collect()
            last = max(self.next_step - 1, 0)
            self._pictures.put(name, image, last if step is None else int(step))

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
        metrics = {"final_loss": final_loss, "val_loss": val_loss, "val_accuracy": val_accuracy}
        counts = {"parameters": parameters, "peak_memory_bytes": peak_memory_bytes}
        self._summary |= {name: float(v) for name, v in metrics.items() if v is not None}
        self._summary |= {name: int(v) for name, v in counts.items() if v is not None}

    def expect_steps(self, total_steps: int) -> None:
        """Tell how many rows the run will have, for the progress bar."""
        if total_steps >= 1:
            self._sender.total_steps = int(total_steps)
            if self._folder is not None:
                self._folder.change(total_steps=int(total_steps))

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
        self._write_end(state, message)
        self._send_end(state, message)
        if self._mirrors is not None:
            self._mirrors.end(self._end(state, message), self.id, self.url, self._flush_timeout_s)

    def _send_end(self, state: Outcome | None, message: str | None) -> None:
        has_stopped = self._sender.has_stopped  # which was logged, with the reason
        if not self._sender.close(self._flush_timeout_s):
            if not has_stopped or self._folder is not None:
                log.warning("%s could not be sent completely; %s", self._api.subject, self._remedy)
            self._close()
            return
        end = self._end(state, message)
        try:
            self._api.finish(end | {"entries": self._sender.entries})
            if self._folder is not None:
                entries, steps = self._sender.entries, self._outbox.logged_steps(None)
                self._folder.complete(end["state"], entries=entries, steps=steps)
        except (AmpcoreError, RuntimeError) as error:  # RuntimeError: the client was closed before
            log.warning("the end of %s could not be stored: %s", self._api.subject, error)
        self._close()

    def _end(self, state: Outcome | None, message: str | None) -> dict[str, Any]:
        default: Outcome = "cancelled" if self.cancel_requested else "succeeded"
        return {
            "state": state or default,
            "message": None if message is None else storable_text(message)[:MAX_MESSAGE],
            "summary": json_safe(self._summary | self._notices.incomplete(self._outbox)),
        }

    def _write_end(self, state: Outcome | None, message: str | None) -> None:
        if self._folder is not None:
            try:
                self._folder.write_end(self._end(state, message))
            except OSError as error:
                log.warning("the end of the run cannot be written: %s", error)

    def _close(self) -> None:
        if self._folder is not None:
            self._outbox.close()
            self._folder.close()

    @property
    def _remedy(self) -> str:
        """What happens to a run that could not be sent."""
        if self._folder is None:
            return "the server will report it as lost"
        return f"send it later with `ampctl run sync {self._folder.path}`"

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
                for entry in self._rows.encode(is_last=is_last):
                    self._put(entry)
                for entry in self._rows.encode_last_events() if is_last else ():
                    self._put(entry)
                for entry in self._notices.entries(is_last=is_last):
                    self._put(entry)
        except Exception:  # a bug here must not end the training, nor pass unseen
            self._notices.warn_of_error("rows of the run are lost")

    def _put(self, entry: PendingEntry) -> None:
        if not self._outbox.put(entry) and self._folder is None:
            self._notices.warn(
                "the server cannot be reached, and the buffer is full: old steps are lost"
            )
