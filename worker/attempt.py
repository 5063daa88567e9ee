"""One attempt at a job: its trainer, what carries away what that tells and leaves, and its end."""

import logging
import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
from typing import Any, Final

from ampcore.series import Event
from ampcore.series.frames import Frame, FrameType
from store.leases import longest_wait_s
from store.tables import Job
from worker.aside import aside
from worker.closing import Closing
from worker.courier import Courier
from worker.endings import End, Ending, broken, judge
from worker.halts import NOT_STOPPING, Orders, Stopping
from worker.isolation import TrainerFolder
from worker.patience import Lease, PatientWrites
from worker.relay import Relay
from worker.report import report
from worker.resumption import fetch_newest
from worker.spool import Spool
from worker.supervisor import TrainerProcess
from worker.workshop import Workshop

log = logging.getLogger(__name__)

POLL_S: Final = 0.25
OUTPUT: Final = "output"
"""In an attempt's folder: where a trainer writes that has no folder of its own."""
FETCHED: Final = "fetched"
"""What earlier attempts have left for it."""
LAST_FRAMES: Final = (FrameType.SUCCEEDED, FrameType.FAILED, FrameType.STOPPED)


class JobAttempt:
    """Runs a job that was claimed.

    Args:
        workshop: What the attempts of this worker share.
        job: The job as it was claimed.
        used_s: How long earlier attempts have had a worker.
        folder: What it needs on this machine; made here, and removed by whoever named it.
    """

    def __init__(self, workshop: Workshop, job: Job, used_s: float, folder: Path) -> None:
        self._shop, self._job, self._folder = workshop, job, folder
        self._over = threading.Event()
        wait_s = longest_wait_s(workshop.lease_s)
        ring = partial(workshop.bell.ring, job.id)
        self._writes = PatientWrites(workshop.database, self._over, wait_s, ring)
        self._lease = lease = Lease(job.id, job.attempt, workshop.lease_s)
        spool = Spool(workshop.room_bytes)
        self._relay = Relay(self._writes, lease, workshop.meter, self._note, spool)
        self._output = folder / OUTPUT
        self._trainer_folder: TrainerFolder | None = None
        tell = self._relay.tell
        self._courier = Courier(workshop.storage, self._writes, lease, self._output, tell)
        self._timeout_s: float | None = job.spec["runtime"]["timeout_s"]
        left_s = math.inf if self._timeout_s is None else self._timeout_s - used_s
        self._orders = Orders(
            self._relay, workshop.shutting_down, workshop.self_fence_s, time.monotonic() + left_s
        )
        self._ready: dict[str, Any] = {}

    def run(self) -> None:
        """Train, and write how it ended once its process is gone."""
        self._relay.start()
        self._courier.start()
        try:
            end = self._train()
            if end is not None:
                closing = Closing(
                    self._relay, self._courier, self._lease, self._orders, self._folder
                )
                closing.leave(end, report(self._job, end, self._ready))
        finally:
            self._over.set()
            self._courier.give_up()
            self._relay.close()
            if self._trainer_folder is not None:
                self._trainer_folder.close()

    def _note(self, event: Event) -> None:
        self._courier.note(event)

    def _train(self) -> End | None:
        """What the attempt comes to; None when nobody may write that down."""
        try:
            ending = self._ended()
        except Exception as error:
            log.exception("the attempt could not be run")
            return broken(error)
        log.info("the trainer has ended: %s", ending)
        return judge(ending, self._timeout_s)

    def _ended(self) -> Ending:
        fetched = self._folder / FETCHED
        fetched.mkdir(parents=True)
        fetching = aside(partial(self._fetch, fetched))
        done = False
        while not done:
            # Also before the first step: earlier attempts may have taken all of the time.
            if (halt := self._orders.halt()) is not None:
                return Ending(None, 0, halt)
            done = _is_done(fetching)
        resume = fetching.result()
        process = self._shop.standby.take()
        try:
            self._settle(process, list(fetched.iterdir()))
            process.assign(self._assignment(resume=resume))
            return self._supervised(process)
        finally:
            process.end(grace_s=0)

    def _fetch(self, folder: Path) -> bool:
        tell = self._relay.tell
        return fetch_newest(self._shop.storage, self._writes, self._lease, folder, tell)

    def _settle(self, process: TrainerProcess, fetched: Sequence[Path]) -> None:
        """Let the trainer find in its folder what was fetched for it."""
        self._trainer_folder = process.folder
        if process.folder is None:
            self._output.mkdir()
            for path in fetched:
                path.rename(self._output / path.name)
            return
        self._output = self._courier.folder = process.folder.path
        for path in fetched:
            process.folder.bring(path)

    def _assignment(self, *, resume: bool) -> dict[str, Any]:
        return {
            "job_id": self._job.id,
            "attempt": self._job.attempt,
            "spec": self._job.spec,
            "data_root": str(self._shop.data_root),
            "output_dir": str(self._output),
            "resume": resume,
        }

    def _supervised(self, process: TrainerProcess) -> Ending:
        """Carry everything away until the process has ended, or has to be ended."""
        stopping, last, kills = NOT_STOPPING, None, self._shop.memory_kills()
        ready_by = time.monotonic() + self._shop.ready_s
        while process.tells_more and not stopping.is_due(time.monotonic()):
            last = self._carry(process, self._heard(process)) or last
            if process.ready is None and time.monotonic() > ready_by:
                raise TimeoutError(f"its process was not ready after {self._shop.ready_s:g} s")
            kills.look()
            stopping = self._obeyed(process, stopping)
        late = process.end(stopping.left_s(time.monotonic(), at_most=self._shop.grace_s))
        last = self._carry(process, late, at_end=True) or last
        self._ready = process.ready or {}
        return Ending(
            last,
            process.exit_code,
            stopping.halt,
            last_line=process.printed.last_line(),
            # Where that was the fork server, it was not this job that took too much.
            memory_ran_out=kills.has_risen() and not process.died_with_server,
        )

    def _heard(self, process: TrainerProcess) -> list[Frame]:
        """What comes next; nothing while there is no room for it, and the trainer waits."""
        if self._relay.spool.has_room:
            return process.hear(POLL_S)
        self._relay.spool.wait_for_room(POLL_S)
        return []

    def _carry(
        self, process: TrainerProcess, frames: Sequence[Frame], *, at_end: bool = False
    ) -> Frame | None:
        """Pass on what was said and printed; the last word, if it is among it."""
        if self._relay.error is not None:
            raise self._relay.error
        self._relay.carry(frames)
        self._relay.tell(*process.printed.take(now=at_end))
        if any(frame.type is FrameType.STEPS for frame in frames):
            self._shop.standby.prepare()  # this job has what it needs: warm up the next one's
        return next((frame for frame in frames if frame.type in LAST_FRAMES), None)

    def _obeyed(self, process: TrainerProcess, stopping: Stopping) -> Stopping:
        """Tell the trainer to stop if somebody wants it to."""
        now, grace_s = time.monotonic(), self._shop.grace_s
        joined = stopping.joined(self._orders.halt(), grace_s=grace_s, now=now)
        if joined.halt is not None and joined.halt is not stopping.halt:
            log.info("the trainer is stopped: %s", joined.halt.value)
            process.terminate()
        return joined


def _is_done(future: Future[Any]) -> bool:
    """Wait a moment for it."""
    wait([future], timeout=POLL_S)
    return future.done()
