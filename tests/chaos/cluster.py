"""Cluster: a stack of real processes that can be stopped, suspended and killed one by one.

API servers and workers reach PostgreSQL and Redis through proxies of this process, so that a test
can break the connections as well as stop the servers.
"""

import itertools
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import update

from ampclient import Client, Job
from ampspec.jobs import State
from store.clock import from_now
from store.database import Database
from store.gangs import gang_members
from store.leases import SELF_FENCE_S
from store.tables import GangMember
from store.tables import Job as JobRow
from store.tables import Worker as WorkerRow
from store.workers import HEARTBEAT_TIMEOUT_S
from tests.chaos.postgres import Postgres
from tests.chaos.process import processes_of, resume
from tests.chaos.programs.control import Control
from tests.chaos.reference_run import BLOCK_STEPS, HOLD_STEP, PACE, reached, saved_at
from tests.chaos.service_processes import PROGRAMS, Api, Worker
from tests.chaos.stack_environment import StackEnvironment
from tests.processes import free_port, free_ports, has_ended
from tests.waiting import DEADLINE_S, wait_until

PACED = "paced_trainer.py"
"""The real trainer, with TensorFlow."""
SCRIPTED = "scripted_trainer.py"
"""A trainer without TensorFlow whose steps follow a formula; the rest of the stack is real."""
RANK_PORTS = 16
"""Ports of a worker for its ranks; each slot needs two."""


class Cluster:
    """A database, a Redis, and the API servers and workers that use them."""

    def __init__(
        self, folder: Path, postgres: Postgres, *, pace: float = PACE, **settings: str
    ) -> None:
        from server.embedded.private_redis import start_redis

        self.postgres = postgres
        self.ended = False
        self.redis = start_redis(folder, folder / "redis.log")
        self._folder = folder
        self._numbers = itertools.count(1)
        (folder / "control").mkdir()
        self.control = Control(folder / "control", BLOCK_STEPS, pace)
        self._environment = StackEnvironment(folder, postgres, self.redis, settings)
        self.database = Database(postgres.url(self._environment.database))
        self.proxies, self.api_proxies = self._environment.proxies(), self._environment.proxies()
        self.apis: list[Api] = []
        self.workers: list[Worker] = []
        self._run("migrate")
        self.token = self._run("token", "create", "chaos", "--role", "admin").split()[-1]

    # ---- Processes

    @property
    def client(self) -> Client:
        """The client of the first API."""
        return self.apis[0].client

    def api(self) -> Api:
        """Start another API server, and wait until it is ready."""
        port = free_port()
        environment = {**self._environment.environment(self.api_proxies), "AMPCORE_PORT": str(port)}
        api = Api(*self._new_name("api"), ["-m", "server", "api"], environment)
        api.sign_in(f"http://127.0.0.1:{port}", self.token)
        self.apis.append(api)
        api.start()
        api.wait_ready()
        return api

    def worker(
        self,
        trainer: str = PACED,
        *,
        clock_offset_s: float = 0.0,
        clock_file: Path | None = None,
        grace_s: float | None = None,
        **environment: str,
    ) -> Worker:
        """Start another worker, whose trainers follow `control`."""
        name, log_file = self._new_name("worker")
        changed = [f"--clock-offset-s={clock_offset_s}"]
        changed += [] if clock_file is None else [f"--clock-file={clock_file}"]
        changed += [] if grace_s is None else [f"--grace-s={grace_s}"]
        command = [sys.executable, "-u", str(PROGRAMS / trainer), self.control.argument()]
        program = [str(PROGRAMS / "patched_worker.py"), *changed, "--", *command]
        scratch = self._folder / f"scratch-of-{name}"
        # Ports of ranks that the system gives to no other process between two attempts.
        ports = free_ports(RANK_PORTS)
        own = {
            **self._environment.environment(self.proxies),
            "AMPCORE_SCRATCH_DIR": str(scratch),
            "AMPCORE_WORKER_PORTS": f"{ports.start}-{ports.stop - 1}",
        }
        worker = Worker(name, log_file, program, {**own, **environment})
        worker.scratch_dir = scratch
        worker.kind = (trainer, grace_s, *sorted(environment.items()))
        self.workers.append(worker)
        worker.start()
        return worker

    def ensure_workers(
        self,
        count: int,
        trainer: str = PACED,
        *,
        grace_s: float | None = None,
        **environment: str,
    ) -> list[Worker]:
        """Have exactly this many workers of this kind, ready; stop all others."""
        running = [worker for worker in self.workers if worker.running]
        kind = (trainer, grace_s, *sorted(environment.items()))
        matching = [worker for worker in running if worker.kind == kind][:count]
        leaving = [worker for worker in running if worker not in matching]
        for worker in leaving:
            worker.ask_to_stop()
        workers = matching + [
            self.worker(trainer, grace_s=grace_s, **environment)
            for _ in range(len(matching), count)
        ]
        for worker in leaving:
            assert worker.wait() == 0, worker.log
        wait_until(lambda: all(map(self.is_ready, workers)), "the workers are ready")
        return workers

    def environment(self) -> Mapping[str, str]:
        """The variables of another process beside the workers."""
        return self._environment.environment(self.proxies)

    def registered(self, worker: Worker) -> Any:
        """Its row in the table of workers, as the API shows it."""
        known = [known for known in self.client.workers.list() if known.pid == worker.pid]
        return known[0] if known else None

    # ---- Jobs

    def owner(self, job: Job) -> Worker:
        """The worker that runs it."""
        return self.worker_with_id(str(job.refresh().worker_id))

    def trainer(self, job: Job) -> psutil.Process:
        """Wait for the process that trains the job's current attempt."""
        pid = wait_until(
            lambda: self.control.pid(job.id, job.refresh().attempt), "a trainer has the job"
        )
        return psutil.Process(pid)

    def submit_paused_at(self, spec: dict[str, Any], step: int = HOLD_STEP) -> Job:
        """Submit a job whose trainer pauses after this step."""
        self.control.hold(step)
        return self.client.jobs.submit(spec)

    def train_to_step(self, job: Job, step: int) -> None:
        """Let the trainers continue to this step, and wait until the job has reached it."""
        self.control.hold(step)
        wait_until(lambda: reached(job, step), f"step {step} is stored")

    def wait_past_checkpoint(self, job: Job) -> Worker:
        """Wait until the job is held with steps after a recorded checkpoint; returns its worker."""
        wait_until(lambda: reached(job, HOLD_STEP), "the job trains as far as it may")
        # The trainer saves after each block, and is held before it saves behind the last one.
        stored = job.refresh().step
        wait_until(
            lambda: any(stored - BLOCK_STEPS <= saved < stored for saved in saved_at(job)),
            "the checkpoint before the last block is recorded",
        )
        return self.owner(job)

    def finish(self, job: Job) -> Job:
        """Let the trainers train to the end, and wait for the job."""
        self.control.release()
        return job.wait(timeout_s=DEADLINE_S)

    def expire_lease(self, job: Job, seconds: float = 1.0) -> None:
        """Change the job's lease so that it expired `seconds` ago."""
        self.database.engine.dispose()  # the server may have been restarted since the last use
        with self.database.write() as session:
            statement = update(JobRow).where(JobRow.id == job.id)
            session.execute(
                statement.where(JobRow.lease_expires_at.is_not(None)).values(
                    lease_expires_at=from_now(-seconds)
                )
            )

    def members(self, job: Job) -> list[GangMember]:
        """The workers of the job's current attempt, or of its reservation; that of rank 0 first."""
        with self.database.read() as session:
            rows = gang_members.listing(session, job.id)
            newest = max((row.attempt for row in rows), default=0)
            return [row for row in rows if row.attempt == newest]

    def rank(self, job: Job, number: int) -> psutil.Process:
        """Wait for the process of a rank of the job's current attempt."""
        pid = wait_until(
            lambda: self.control.pid(rank_name(job, number), job.refresh().attempt),
            f"rank {number} trains",
        )
        return psutil.Process(pid)

    def worker_of_rank(self, job: Job, number: int) -> Worker:
        """The worker that runs a rank of the job's current attempt."""
        [worker_id] = [
            one.worker_id
            for one in self.members(job)
            if one.first_rank <= number < one.first_rank + one.ranks
        ]
        return self.worker_with_id(worker_id)

    def worker_with_id(self, worker_id: str) -> Worker:
        """The process of a registered worker."""
        [pid] = [known.pid for known in self.client.workers.list() if known.id == worker_id]
        [worker] = [worker for worker in self.workers if worker.started and worker.pid == pid]
        return worker

    def expire_member(self, job: Job, worker: Worker) -> None:
        """Change the lease of a worker's ranks, and its heartbeat, so that they have expired."""
        worker_id = self.registered(worker).id
        with self.database.write() as session:
            statement = update(GangMember).where(
                GangMember.job_id == job.id, GangMember.worker_id == worker_id
            )
            session.execute(statement.values(lease_expires_at=from_now(-1)))
            seen = update(WorkerRow).where(WorkerRow.id == worker_id)
            session.execute(seen.values(last_seen_at=from_now(-2 * HEARTBEAT_TIMEOUT_S)))

    def start_next_attempt(self, job: Job) -> None:
        """Wait until the job is queued again, and end the delay of its retry."""
        wait_until(lambda: job.refresh().state == State.QUEUED, "the job is queued again")
        self.end_retry_delay(job)

    def end_retry_delay(self, job: Job) -> None:
        """End the delay before the next attempt of a job."""
        with self.database.write() as session:
            session.execute(update(JobRow).where(JobRow.id == job.id).values(not_before=None))

    def wait_in_phase(self, job: Job, phase: str, number: int) -> None:
        """Wait until a rank of the job's current attempt has entered a phase."""
        wait_until(
            lambda: self.control.has_entered(phase, rank_name(job, number), job.refresh().attempt),
            f"rank {number} is in the phase {phase}",
        )

    # ---- Cleaning up

    def reset(self) -> None:
        """After a test: restore proxies and servers, keep one API, end every job.

        Processes and files that the test left behind fail it, and are removed for the next one.
        """
        self.control.release()
        self.control.set_memory_limit(None)
        self.control.use_rank_proxy(None)
        self.control.end_exchange(None)
        self.postgres.start()
        self.proxies.restore()
        self.api_proxies.restore()
        for process in processes_of(self._environment.temporary):
            resume(process)
        if not self.redis.running:
            self.redis.start()
        while len(self.apis) > 1:
            self.apis.pop().close()
        for api in self.apis:
            if not api.running:
                api.start()
            api.wait_ready()
        self._end_jobs()
        left = self._remaining(lambda: [*self._orphans(), *self._temporary_files()])
        self._clean_up()
        assert not left, f"the test left behind: {left}"

    def end(self) -> list[str]:
        """Stop everything and remove what is left; returns the problems as sentences."""
        if self.ended:
            return []
        self.ended = True
        codes = {member.name: self._stopped(member) for member in (*self.workers, *self.apis)}
        for api in self.apis:
            api.sign_out()
        self.redis.stop(grace_s=3)
        self.proxies.close()
        self.api_proxies.close()
        self.database.close()
        wrong = [f"{name} exited with {code}" for name, code in codes.items() if code]
        temporary = self._environment.temporary
        left = self._remaining(lambda: [*processes_of(temporary), *self._temporary_files()])
        self._clean_up(living=False)
        shutil.rmtree(self._folder)
        return wrong + [f"left behind: {what}" for what in left]

    def _end_jobs(self) -> None:
        unfinished = [
            job for job in self.client.jobs.list(explanations=True) if not job.state.is_terminal
        ]
        living = {worker.pid for worker in self.workers if worker.running}
        at_work = {known.id for known in self.client.workers.list() if known.pid in living}
        for job in unfinished:
            job.cancel()
            if job.worker_id not in at_work:  # no worker is left to end it
                self.expire_lease(job, 2 * SELF_FENCE_S)
        self.client.jobs.wait(unfinished, timeout_s=DEADLINE_S)

    def _orphans(self) -> list[psutil.Process]:
        """Processes that do not belong to a running API server or worker."""
        found = processes_of(self._environment.temporary)
        ours = set(self._living())  # read after `found`: a member may start a process at any moment
        return [one for one in found if one not in ours and not has_ended(one)]

    def _living(self) -> Iterator[psutil.Process]:
        for member in (*self.apis, *self.workers):
            if member.running:
                yield psutil.Process(member.pid)
                yield from member.descendants()

    @staticmethod
    def _remaining(look: Callable[[], list[Any]]) -> list[Any]:
        """What `look` still finds after waiting for it to become empty."""
        with suppress(AssertionError):
            wait_until(lambda: not look())
        return look()

    def _temporary_files(self) -> list[Path]:
        return list(self._environment.temporary.iterdir())

    def _clean_up(self, *, living: bool = True) -> None:
        """Kill and delete what was left behind."""
        for process in self._orphans() if living else processes_of(self._environment.temporary):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        for file in self._temporary_files():
            shutil.rmtree(file) if file.is_dir() else file.unlink()

    def _stopped(self, member: Api | Worker) -> int:
        """Stop a member; returns 0 for a clean exit or one that had stopped before."""
        if not member.running:
            return 0
        try:
            code = member.stop()
        except subprocess.TimeoutExpired:
            member.kill()
            return -1
        return 0 if code in member.clean_exit_codes else code

    # ---- Starting

    def is_ready(self, worker: Worker) -> bool:
        """Whether it is registered and its trainer has TensorFlow loaded."""
        assert worker.running, worker.log
        known = self.registered(worker)
        return known is not None and known.state == "online" and known.hardware is not None

    def _new_name(self, kind: str) -> tuple[str, Path]:
        name = f"{kind}-{next(self._numbers)}"
        return name, self._folder / f"{name}.log"

    def _run(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "server", *arguments]
        environment = self._environment.environment(self.api_proxies)
        done = subprocess.run(
            command,
            env=environment,
            cwd=self._folder,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout


def rank_name(job: Job, number: int) -> str:
    """The name under which a rank has recorded itself in `Control`."""
    return job.id if number == 0 else f"{job.id}-rank-{number}"
