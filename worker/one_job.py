"""A worker that runs one job and ends, without Celery: a batch system starts it for this job.

A job with one rank it claims by its id. The ranks of a gang are reserved on it by the server, as on
other workers.
"""

import logging
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from store import allocations
from store.jobs import attempts, claim_by_id
from store.jobs.claim_by_id import Refusal
from store.tables import Job
from worker.app import create_context, running_parts
from worker.background_thread import run_in_background
from worker.context import WorkerContext
from worker.gangs.gang_runner import GangRunner
from worker.settings import WorkerSettings
from worker.tasks import run_claimed

log = logging.getLogger(__name__)

T = TypeVar("T")

POLL_S: Final = 1.0
UNEXPECTED_ERROR: Final = 1
NOT_RUN: Final = 3
"""The exit code of a worker that did not run its job."""
DRAIN_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
"""Each begins the drain; SIGUSR1 is Slurm's warning before the time limit of an allocation."""


class NotRun(Exception):
    """The worker ends without having run its job; the message is a sentence that says why."""


def run(settings: WorkerSettings, job_id: str) -> int:
    """Run a worker until its job was run, it gives up, or it is drained.

    Args:
        settings: The settings of the worker.
        job_id: The job, which need not exist.

    Returns:
        The exit code of the process.

    Raises:
        IsolationUnavailable: The machine does not allow what the settings ask for.
    """
    context = create_context(settings)
    for number in DRAIN_SIGNALS:
        signal.signal(number, lambda *_: context.shutting_down.set())
    # In another thread: a signal handler must not wait for a lock that its own thread holds.
    worker = JobWorker(context, settings, job_id)
    try:
        return run_in_background(worker.run).result()
    except NotRun as reason:
        sys.stderr.write(f"{reason}\n")
        return NOT_RUN
    finally:
        for number in DRAIN_SIGNALS:  # a late signal does not change the exit code
            signal.signal(number, signal.SIG_IGN)


class JobWorker:
    """The life of a worker with one job.

    Args:
        context: From `create_context`; its queues become the one of the job.
        settings: The settings of the worker.
        job_id: The job, which need not exist.
    """

    def __init__(self, context: WorkerContext, settings: WorkerSettings, job_id: str) -> None:
        self._context, self._settings, self._job_id = context, settings, job_id
        self._wait_s = settings.worker_job_wait_s
        self._give_up_at = time.monotonic() + self._wait_s
        self._reported = ""

    def run(self) -> int:
        """Run the job; returns the exit code. Raises NotRun."""
        job = self._until_allowed(self._read_job)
        if job is None:
            return 0
        queue, ranks = job
        self._context = context = replace(self._context, queues=(queue,), job_id=self._job_id)
        with running_parts(context, self._settings) as gang_runner:
            try:
                return self._run_alone() if ranks == 1 else self._wait_for_ranks(gang_runner)
            finally:
                context.shutting_down.set()  # it takes no further ranks

    def _run_alone(self) -> int:
        claimed = self._until_allowed(self._claim)
        if claimed is None:
            return 0
        return 0 if run_claimed(self._context, *claimed) else UNEXPECTED_ERROR

    def _wait_for_ranks(self, gang_runner: GangRunner) -> int:
        """Wait until the gang runner has run ranks of the job; at a drain its parts wait for it."""
        ready_by = time.monotonic() + self._context.ready_timeout_s
        self._until_allowed(partial(self._end_of_ranks, gang_runner, ready_by))
        return UNEXPECTED_ERROR if gang_runner.has_failed else 0

    def _until_allowed(self, work: Callable[[], T | Refusal]) -> T | None:
        """The result of the work, repeated while it is refused; None once the worker may end.

        It may when it is drained, or when the ranks of its job train elsewhere. Raises NotRun.
        """
        while not self._context.shutting_down.is_set():
            try:
                result = work()
            except SQLAlchemyError as error:
                log.warning("cannot read or claim the job: %s", error)
                result = Refusal("The database does not answer.", is_final=False)
            if not isinstance(result, Refusal):
                return result
            if result.is_final:
                raise self._not_run(result.message)
            if time.monotonic() >= self._give_up_at:
                if result.runs_elsewhere and self._has_several_ranks():
                    # It came late. Its failure would end the pods of the ranks that train.
                    log.info("the ranks of the job train on other workers")
                    return None
                message = f"{result.message} The worker has waited for {self._wait_s:g} s."
                raise self._not_run(message)
            if result.message != self._reported:
                log.info("the worker waits: %s", result.message)
                self._reported = result.message
            self._context.shutting_down.wait(POLL_S)
        return None

    def _has_several_ranks(self) -> bool:
        with self._context.database.read() as session:
            return (session.scalar(select(Job.ranks).where(Job.id == self._job_id)) or 1) > 1

    def _not_run(self, message: str) -> NotRun:
        """The exception to raise; the message is recorded with the allocation, if there is one."""
        with suppress(SQLAlchemyError), self._context.database.write() as session:
            allocations.note_worker(session, self._job_id, message)
        return NotRun(message)

    def _read_job(self) -> tuple[str, int] | Refusal:
        """The queue and the number of ranks of the job, if it may be run some time."""
        with self._context.database.read() as session:
            refusal = claim_by_id.refusal(
                session, self._job_id, with_bundles=self._runs_custom_code
            )
            if refusal is not None and refusal.is_final:
                return refusal
            row = session.execute(select(Job.queue, Job.ranks).where(Job.id == self._job_id)).one()
        package = row.queue.partition("/")[2]
        if package and all(package != entry["package"] for entry in self._context.packages):
            message = f"The job {self._job_id!r} needs the package {package!r}: install it here."
            return Refusal(message, is_final=True)
        return row.queue, row.ranks

    def _claim(self) -> tuple[Job, float] | Refusal:
        if (refusal := self._storage_refusal()) is not None:
            return refusal
        with self._context.database.write() as session:
            job = claim_by_id.claim(
                session,
                self._job_id,
                self._context.worker_id,
                lease_s=self._context.lease_s,
                with_bundles=self._runs_custom_code,
            )
            return job if isinstance(job, Refusal) else (job, attempts.used_s(session, job.id))

    def _end_of_ranks(self, gang_runner: GangRunner, ready_by: float) -> bool | Refusal:
        """True once ranks of the job have run here; else what is waited for."""
        is_loading = self._context.standby.hardware() is None and time.monotonic() < ready_by
        if (is_busy := gang_runner.is_busy) or is_loading:
            self._give_up_at = time.monotonic() + self._wait_s
        if is_busy:
            return Refusal("Ranks of the job train, or get ready.", is_final=False)
        if gang_runner.has_run:
            return True
        if (refusal := self._storage_refusal()) is not None:
            return refusal
        with self._context.database.read() as session:
            refusal = claim_by_id.refusal(
                session, self._job_id, with_bundles=self._runs_custom_code
            )
        message = f"No ranks of the job {self._job_id!r} are reserved on this worker."
        return refusal or Refusal(message, is_final=False)

    def _storage_refusal(self) -> Refusal | None:
        if self._context.may_take_jobs:
            return None
        check = self._context.storage_check
        message = f"The files of the job could not be stored: {check and check.error}"
        return Refusal(message, is_final=False)

    @property
    def _runs_custom_code(self) -> bool:
        return self._context.sandbox_plan.sandbox is not None
