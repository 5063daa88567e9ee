"""Carry what one trainer process says into the database, fenced by the attempt it belongs to."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from ampcore.series import Event, EventType
from ampcore.series.frames import Frame, FrameType
from ampcore.spec import Reason
from store import events, jobs, steps
from store.database import Database
from store.jobs import Standing

log = logging.getLogger(__name__)
T = TypeVar("T")
Action = Callable[[Session], object]

FIRST_WAIT_S: Final = 0.1
LONGEST_WAIT_S: Final = 5.0
PATIENCE_S: Final = 5.0
"""How long a worker that shuts down still waits for its database."""


class Relay:
    """Writes for one attempt of one job; every write waits until the database takes it."""

    def __init__(
        self, database: Database, job_id: str, attempt: int, give_up: threading.Event
    ) -> None:
        self._database = database
        self._job_id = job_id
        self._attempt = attempt
        self._give_up = give_up
        self._skipped = 0
        self._told = 0
        self.written_at = time.monotonic()

    def carry(self, frames: Sequence[Frame]) -> Standing | None:
        """Write what the frames say, in one transaction; None when the attempt has lost the job."""
        actions = [self._action(frame) for frame in frames]
        told, self._told = self._told, self._told + len(frames)

        def write(session: Session) -> Standing | None:
            standing = jobs.hold(session, self._job_id, self._attempt)
            if standing is None or not jobs.count_frames(
                session, self._job_id, self._attempt, told=told, count=len(actions)
            ):
                return standing
            for action in actions:
                action(session)
            return standing

        return self._write(write)

    def hold(self) -> Standing | None:
        """Extend the lease and hear what is asked; None when the attempt has lost the job."""
        return self._write(lambda session: jobs.hold(session, self._job_id, self._attempt))

    def succeeded(self, summary: dict[str, Any]) -> None:
        """Write the good end; it is a cancelled job's end if that was asked in the meantime."""
        self._write(
            lambda session: (
                jobs.mark_succeeded(session, self._job_id, self._attempt, summary)
                or jobs.mark_cancelled(session, self._job_id, self._attempt)
            )
        )

    def shut_down(self) -> None:
        """The worker stops: a job whose training has not begun goes back into the queue."""
        message = "The worker was shut down. Submit the job again."
        self._write(
            lambda session: (
                jobs.hand_back(session, self._job_id, self._attempt)
                or jobs.mark_failed(
                    session, self._job_id, self._attempt, Reason.WORKER_SHUTDOWN, message
                )
                or jobs.mark_cancelled(session, self._job_id, self._attempt)
            )
        )

    def failed(self, reason: Reason, message: str) -> None:
        """Write the bad end; it is a cancelled job's end if that was asked in the meantime."""
        self._write(
            lambda session: (
                jobs.mark_failed(session, self._job_id, self._attempt, reason, message)
                or jobs.mark_cancelled(session, self._job_id, self._attempt)
            )
        )

    def cancelled(self) -> None:
        """Write the end that was asked for."""
        self._write(lambda session: jobs.mark_cancelled(session, self._job_id, self._attempt))

    def _action(self, frame: Frame) -> Action:
        """What to do in a transaction, which may have to be tried more than once."""
        header = frame.header
        match frame.type:
            case FrameType.RUNNING:
                total = header["total_steps"]
                return lambda session: jobs.mark_running(
                    session, self._job_id, self._attempt, total_steps=total
                )
            case FrameType.STEPS:
                block = self._block(frame)
                return lambda session: steps.append(session, self._job_id, self._attempt, block)
            case FrameType.EVENT:
                event = Event(EventType(header["event"]), header["step"], header["data"])
                return lambda session: events.append(session, self._job_id, self._attempt, event)
            case _:
                return lambda session: None

    def _block(self, frame: Frame) -> steps.EncodedBlock:
        header = frame.header
        self._skipped += header["skipped"]
        return steps.EncodedBlock(
            first_step=header["first_step"],
            count=header["count"],
            skipped=header["skipped"],
            payload=frame.payload,
            latest={**header["last"], "skipped": self._skipped},
        )

    def _write(self, action: Callable[[Session], T]) -> T:
        """Do one transaction; wait and try again while the database is away."""
        wait_s = FIRST_WAIT_S
        last_try_at = time.monotonic() + PATIENCE_S
        while True:
            try:
                with self._database.write() as session:
                    result = action(session)
                self.written_at = time.monotonic()
                return result
            except OperationalError as error:
                if self._give_up.is_set() and time.monotonic() > last_try_at:
                    raise
                log.warning("job %s: database away, next try in %g s: %s",
                            self._job_id, wait_s, error.orig)  # fmt: skip
                time.sleep(wait_s)
                wait_s = min(2 * wait_s, LONGEST_WAIT_S)
