"""One job from the claim to its end: claim the row, supervise a trainer process, write the end."""

import logging
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any, Final

from ampcore.series.frames import Frame, FrameType
from ampcore.spec import Reason
from store import jobs
from store.database import Database
from store.tables import Job
from worker.relay import Relay
from worker.standby import Standby
from worker.supervisor import TrainerProcess

log = logging.getLogger(__name__)

POLL_S: Final = 0.25
HEARTBEAT_S: Final = 2.0
"""Longest silence towards the database: extends the lease, and hears of a cancel."""
GRACE_S: Final = 10.0
"""How long a trainer may take to obey SIGTERM."""
LAST_FRAMES: Final = (FrameType.SUCCEEDED, FrameType.FAILED, FrameType.STOPPED)


class Halt(Enum):
    """Why the worker stopped a trainer that did not end by itself."""

    CANCEL = auto()
    SHUTDOWN = auto()
    FENCED = auto()


@dataclass(frozen=True)
class Ending:
    """How a trainer process ended: its last word, its exit code, and who stopped it."""

    frame: Frame | None
    exit_code: int
    halt: Halt | None

    def __str__(self) -> str:
        said = self.frame.type if self.frame is not None else "nothing"
        stopped = f", stopped for {self.halt.name.lower()}" if self.halt is not None else ""
        return f"it said {said}, exit code {self.exit_code}{stopped}"


@dataclass(frozen=True)
class Slots:
    """What all slots of a worker share."""

    database: Database
    worker_id: str
    data_dir: Path
    standby: Standby
    shutting_down: threading.Event = field(default_factory=threading.Event)

    def train(self, job_id: str) -> None:
        """Train the job if it can be claimed; a second message for it finds nothing to do."""
        if self.shutting_down.is_set():
            return  # the job stays queued, and the server wakes another worker
        with self.database.write() as session:
            job = jobs.claim(session, job_id, self.worker_id)
        if job is None:
            log.info("job %s: not there to be claimed", job_id)
            return
        log.info("job %s: attempt %d starts", job_id, job.attempt)
        relay = Relay(self.database, job_id, job.attempt, give_up=self.shutting_down)
        try:
            self._train_claimed(job, relay)
        except Exception as error:
            log.exception("job %s: attempt %d could not be run", job_id, job.attempt)
            relay.failed(Reason.INTERNAL_ERROR, f"The worker could not run the job: {error!r}")

    def _train_claimed(self, job: Job, relay: Relay) -> None:
        process = self.standby.take()
        try:
            output_dir = self.data_dir / "jobs" / job.id / f"attempt-{job.attempt}"
            process.assign(self._assignment(job, output_dir), output_dir / "output.log")
            ending = self._supervise(process, relay)
        finally:
            process.end(grace_s=0)
        finish(relay, ending, process.log_tail())
        log.info("job %s: attempt %d ended: %s", job.id, job.attempt, ending)
        self.standby.prepare()

    def _assignment(self, job: Job, output_dir: Path) -> dict[str, Any]:
        return {
            "job_id": job.id,
            "attempt": job.attempt,
            "spec": job.spec,
            "data_root": str(self.data_dir / "datasets"),
            "output_dir": str(output_dir),
        }

    def _supervise(self, process: TrainerProcess, relay: Relay) -> Ending:
        """Carry every frame to the database until the process has ended."""
        last: Frame | None = None
        halt: Halt | None = None
        kill_at = float("inf")
        for frames in process.batches(timeout_s=POLL_S):
            last = next((frame for frame in frames if frame.type in LAST_FRAMES), last)
            asked = self._listen(frames, relay) if halt is not Halt.FENCED else halt
            if any(frame.type is FrameType.STEPS for frame in frames):
                self.standby.prepare()  # this job has what it needs: warm up the next one's
            if asked is not None and halt is None:
                process.terminate()
                kill_at = time.monotonic() + GRACE_S
            halt = halt or asked
            if time.monotonic() > kill_at:
                break
        return Ending(last, process.end(grace_s=GRACE_S if halt is None else 0), halt)

    def _listen(self, frames: Sequence[Frame], relay: Relay) -> Halt | None:
        """Write what came, or a heartbeat when one is due; say whether to stop, and why."""
        if frames or time.monotonic() - relay.written_at > HEARTBEAT_S:
            standing = relay.carry(frames) if frames else relay.hold()
            if standing is None:
                return Halt.FENCED
            if standing.requested == jobs.CANCEL:
                return Halt.CANCEL
        return Halt.SHUTDOWN if self.shutting_down.is_set() else None


def finish(relay: Relay, ending: Ending, log_tail: str) -> None:
    """Write how the attempt ended; only now, since its process is gone."""
    match ending:
        case Ending(halt=Halt.FENCED):
            return
        case Ending(halt=Halt.CANCEL):
            relay.cancelled()
        case Ending(frame=Frame(type=FrameType.SUCCEEDED, header=header)):
            relay.succeeded(header["summary"])
        case Ending(frame=Frame(type=FrameType.FAILED, header=header)):
            relay.failed(Reason(header["reason"]), header["message"])
        case Ending(halt=Halt.SHUTDOWN):
            relay.shut_down()
        case Ending(frame=Frame(type=FrameType.STOPPED)):
            message = "The trainer process was told to stop by SIGTERM. Submit the job again."
            relay.failed(Reason.PROCESS_KILLED, message)
        case _:
            relay.failed(*unexplained(ending.exit_code, log_tail))


def unexplained(exit_code: int, log_tail: str) -> tuple[Reason, str]:
    """The reason and the message for a process that ended without a last word."""
    if exit_code < 0:
        name = signal.Signals(-exit_code).name
        hint = " The system does that when memory runs out." if name == "SIGKILL" else ""
        return (
            Reason.PROCESS_KILLED,
            f"The trainer process was killed by {name}.{hint} Submit the job again.",
        )
    said = f" Its log ends with: {log_tail}" if log_tail else ""
    return (
        Reason.INTERNAL_ERROR,
        f"The trainer process ended with exit code {exit_code} and no result.{said}",
    )
