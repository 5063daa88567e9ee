"""A whole stack of real processes, every one of which may be stopped, frozen and killed.

API and workers reach PostgreSQL and Redis through proxies of this process, so that the way there
can be cut as well as the server ended.
"""

import itertools
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import update

from ampclient import Client, Job
from store.clock import after
from store.database import Database
from store.leases import SELF_FENCE_S
from store.tables import Job as JobRow
from tests.chaos.members import PROGRAMS, Api, Worker
from tests.chaos.postgres import Postgres
from tests.chaos.process import processes_of, thaw
from tests.chaos.programs.control import Control
from tests.chaos.runs import BLOCK, HELD_AT, PACE, reached, saved_at
from tests.chaos.surroundings import Surroundings
from tests.ports import free_port
from tests.processes import has_ended
from tests.waiting import DEADLINE_S, wait_until

PACED = "paced_trainer.py"
"""The real trainer, with TensorFlow."""
SCRIPTED = "scripted_trainer.py"
"""One without: it tells by a formula, and everything around it is real."""


class Cluster:
    """A database, a Redis, and what is started on them; everything ends in `end`."""

    def __init__(self, folder: Path, postgres: Postgres) -> None:
        from server.embedded.private_redis import start_redis

        self.postgres = postgres
        self.ended = False
        self.redis = start_redis(folder, folder / "redis.log")
        self._folder = folder
        self._numbers = itertools.count(1)
        (folder / "control").mkdir()
        self.control = Control(folder / "control", BLOCK, PACE)
        self._surroundings = Surroundings(folder, postgres, self.redis)
        self.database = Database(postgres.url(self._surroundings.database))
        self.ways, self.api_ways = self._surroundings.ways(), self._surroundings.ways()
        self.apis: list[Api] = []
        self.workers: list[Worker] = []
        self._run("migrate")
        self.token = self._run("token", "create", "chaos", "--role", "admin").split()[-1]

    # ---- What runs

    @property
    def client(self) -> Client:
        """Of the first API."""
        return self.apis[0].client

    def api(self) -> Api:
        """One more API server, once it answers."""
        port = free_port()
        environment = {**self._surroundings.environment(self.api_ways), "AMPCORE_PORT": str(port)}
        api = Api(*self._named("api"), ["-m", "server", "api"], environment)
        api.sign_in(f"http://127.0.0.1:{port}", self.token)
        self.apis.append(api)
        api.start()
        api.wait_ready()
        return api

    def worker(
        self,
        trainer: str = PACED,
        *,
        clock_off_s: float = 0.0,
        grace_s: float | None = None,
        **environment: str,
    ) -> Worker:
        """One more worker, whose trainers obey `control`."""
        name, log_file = self._named("worker")
        changed = [f"--clock-off-s={clock_off_s}"]
        changed += [] if grace_s is None else [f"--grace-s={grace_s}"]
        command = [sys.executable, "-u", str(PROGRAMS / trainer), self.control.argument()]
        program = [str(PROGRAMS / "changed_worker.py"), *changed, "--", *command]
        scratch = self._folder / f"scratch-of-{name}"
        own = {**self._surroundings.environment(self.ways), "AMPCORE_SCRATCH_DIR": str(scratch)}
        worker = Worker(name, log_file, program, {**own, **environment})
        worker.scratch, worker.kind = scratch, (trainer, grace_s)
        self.workers.append(worker)
        worker.start()
        return worker

    def crew(
        self, count: int, trainer: str = PACED, *, grace_s: float | None = None
    ) -> list[Worker]:
        """So many workers of this kind that are there and idle, and no other one."""
        running = [worker for worker in self.workers if worker.running]
        fitting = [worker for worker in running if worker.kind == (trainer, grace_s)][:count]
        leaving = [worker for worker in running if worker not in fitting]
        for worker in leaving:
            worker.ask_to_stop()
        crew = fitting + [self.worker(trainer, grace_s=grace_s) for _ in range(len(fitting), count)]
        for worker in leaving:
            assert worker.wait() == 0, worker.log
        wait_until(lambda: all(map(self._is_ready, crew)), "the workers are ready")
        return crew

    def registered(self, worker: Worker) -> Any:
        """Its line in the registry."""
        known = [known for known in self.client.workers.list() if known.pid == worker.pid]
        return known[0] if known else None

    # ---- What becomes of a job

    def owner(self, job: Job) -> Worker:
        """The worker that runs it."""
        owner_id = job.refresh().worker_id
        [pid] = [known.pid for known in self.client.workers.list() if known.id == owner_id]
        [worker] = [worker for worker in self.workers if worker.started and worker.pid == pid]
        return worker

    def trainer(self, job: Job) -> psutil.Process:
        """The process that trains its present attempt, once it has begun to."""
        pid = wait_until(
            lambda: self.control.pid(job.id, job.refresh().attempt), "a trainer has the job"
        )
        return psutil.Process(pid)

    def submit_held(self, spec: dict[str, Any], step: int = HELD_AT) -> Job:
        """A new job, whose trainer waits once it has told this step."""
        self.control.hold(step)
        return self.client.jobs.submit(spec)

    def train_to(self, job: Job, step: int) -> None:
        """Let the trainers go on, and wait until the job's has told this step, where it waits."""
        self.control.hold(step)
        wait_until(lambda: reached(job, step), f"step {step} is told")

    def past_a_checkpoint(self, job: Job) -> Worker:
        """Wait until it is held, with steps behind a recorded checkpoint; the job's worker."""
        wait_until(lambda: reached(job, HELD_AT), "the job trains as far as it may")
        # The trainer saves after each block, and is held before it saves behind the last one.
        told = job.refresh().step
        wait_until(
            lambda: any(told - BLOCK <= saved < told for saved in saved_at(job)),
            "the checkpoint before the last block is recorded",
        )
        return self.owner(job)

    def finish(self, job: Job) -> Job:
        """Let the trainers train to the end, and wait for the job's."""
        self.control.release()
        return job.wait(timeout=DEADLINE_S)

    def lapse(self, job: Job, seconds: float = 1.0) -> None:
        """Make it so that the job's lease has run out so long ago, as if time had passed."""
        self.database.engine.dispose()  # the server may have been restarted since the last use
        with self.database.write() as session:
            statement = update(JobRow).where(JobRow.id == job.id)
            session.execute(
                statement.where(JobRow.lease_expires_at.is_not(None)).values(
                    lease_expires_at=after(-seconds)
                )
            )

    # ---- What is left

    def settle(self) -> None:
        """After a test: all ways open, everything awake, one API, every job ended, nothing left.

        What this test has left behind fails this test, and is cleared away for the next one.
        """
        self.control.release()
        self.control.leave_memory(None)
        self.postgres.start()
        self.ways.restore()
        self.api_ways.restore()
        for process in processes_of(self._surroundings.temporary):
            thaw(process)
        if not self.redis.running:
            self.redis.start()
        while len(self.apis) > 1:
            self.apis.pop().close()
        for api in self.apis:
            if not api.running:
                api.start()
            api.wait_ready()
        self._end_jobs()
        left = self._what_stays(lambda: [*self._orphans(), *self._temporary_files()])
        self._clear()
        assert not left, f"the test has left behind: {left}"

    def end(self) -> list[str]:
        """End everything and clear away what is left; what was wrong, in words."""
        if self.ended:
            return []
        self.ended = True
        codes = {member.name: self._stopped(member) for member in (*self.workers, *self.apis)}
        for api in self.apis:
            api.sign_out()
        self.redis.stop(grace_s=3)
        self.ways.close()
        self.api_ways.close()
        self.database.close()
        wrong = [f"{name} has ended with {code}" for name, code in codes.items() if code]
        temporary = self._surroundings.temporary
        left = self._what_stays(lambda: [*processes_of(temporary), *self._temporary_files()])
        self._clear(living=False)
        shutil.rmtree(self._folder)
        return wrong + [f"left behind: {what}" for what in left]

    def _end_jobs(self) -> None:
        unfinished = [job for job in self.client.jobs.list() if not job.state.is_terminal]
        living = {worker.pid for worker in self.workers if worker.running}
        at_work = {known.id for known in self.client.workers.list() if known.pid in living}
        for job in unfinished:
            job.cancel()
            if job.worker_id not in at_work:  # nobody is left to end it
                self.lapse(job, 2 * SELF_FENCE_S)
        self.client.jobs.wait(unfinished, timeout=DEADLINE_S)

    def _orphans(self) -> list[psutil.Process]:
        """Processes that no living member of the stack has made."""
        found = processes_of(self._surroundings.temporary)
        ours = set(self._living())  # asked later: a member may start one at any moment
        return [one for one in found if one not in ours and not has_ended(one)]

    def _living(self) -> Iterator[psutil.Process]:
        for member in (*self.apis, *self.workers):
            if member.running:
                yield psutil.Process(member.pid)
                yield from member.descendants()

    @staticmethod
    def _what_stays(look: Callable[[], list[Any]]) -> list[Any]:
        """What is still there after all that is about to end has had its time."""
        with suppress(AssertionError):
            wait_until(lambda: not look())
        return look()

    def _temporary_files(self) -> list[Path]:
        return list(self._surroundings.temporary.iterdir())

    def _clear(self, *, living: bool = True) -> None:
        """Kill and delete what should not be there."""
        for process in self._orphans() if living else processes_of(self._surroundings.temporary):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        for file in self._temporary_files():
            shutil.rmtree(file) if file.is_dir() else file.unlink()

    def _stopped(self, member: Api | Worker) -> int:
        """The exit code of a member that runs; 0 where it was an orderly end, or an earlier one."""
        if not member.running:
            return 0
        try:
            code = member.stop()
        except subprocess.TimeoutExpired:
            member.kill()
            return -1
        return 0 if code in member.calm_ends else code

    # ---- How it is started

    def _is_ready(self, worker: Worker) -> bool:
        """Whether it is registered and its trainer has TensorFlow loaded."""
        assert worker.running, worker.log
        known = self.registered(worker)
        return known is not None and known.state == "online" and known.hardware is not None

    def _named(self, kind: str) -> tuple[str, Path]:
        name = f"{kind}-{next(self._numbers)}"
        return name, self._folder / f"{name}.log"

    def _run(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "server", *arguments]
        environment = self._surroundings.environment(self.api_ways)
        done = subprocess.run(
            command,
            env=environment,
            cwd=self._folder,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout
