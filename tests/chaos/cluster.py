"""A whole stack of real processes, every one of which may be stopped, frozen and killed.

API and workers reach PostgreSQL and Redis through proxies of this process, so that the way there
can be cut as well as the server ended.
"""

import itertools
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from ampclient import Client, Job
from store.database import Database
from tests.chaos.members import READY_S, TRAINER, Api, Worker
from tests.chaos.postgres import Postgres
from tests.chaos.process import command_of, processes_of
from tests.chaos.runs import checkpoints, running
from tests.chaos.surroundings import Surroundings
from tests.chaos.waiting import wait_until


class Cluster:
    """A database, a Redis, and what is started on them; everything ends in `close`."""

    def __init__(self, folder: Path, postgres: Postgres) -> None:
        from server.embedded.private_redis import start_redis

        self.postgres = postgres
        self.redis = start_redis(folder, folder / "redis.log")
        self._folder = folder
        self._numbers = itertools.count(1)
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
        port = _free_port()
        environment = {**self._surroundings.environment(self.api_ways), "AMPCORE_PORT": str(port)}
        api = Api(*self._named("api"), ["-m", "server", "api"], environment)
        api.sign_in(f"http://127.0.0.1:{port}", self.token)
        self.apis.append(api)
        api.start()
        api.wait_ready()
        return api

    def worker(self, program: Sequence[str] = ("-m", "worker"), **environment: str) -> Worker:
        """One more worker; `program` is what Python runs."""
        name, log_file = self._named("worker")
        scratch = self._folder / f"scratch-of-{name}"
        own = {**self._surroundings.environment(self.ways), "AMPCORE_SCRATCH_DIR": str(scratch)}
        worker = Worker(name, log_file, program, {**own, **environment})
        worker.scratch = scratch
        self.workers.append(worker)
        worker.start()
        return worker

    def crew(self, count: int) -> list[Worker]:
        """So many workers that are there and idle, and no other one."""
        for worker in [worker for worker in self.workers if worker.running][count:]:
            assert worker.stop() == 0, worker.log
        while len(crew := [worker for worker in self.workers if worker.running]) < count:
            self.worker()
        wait_until(lambda: all(map(self._is_ready, crew)), READY_S, "the workers are ready")
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

    def past_a_checkpoint(self, job: Job) -> Worker:
        """Wait until some steps behind a recorded checkpoint are told; the job's worker."""
        wait_until(lambda: running(job), READY_S, "the job runs")
        wait_until(lambda: checkpoints(job), what="a checkpoint is recorded")
        step = job.refresh().step
        wait_until(lambda: job.refresh().step > step, what="the job goes on")
        return self.owner(job)

    # ---- What is left

    def settle(self) -> None:
        """After a test: all ways open, everything awake, one API, and every job ended."""
        self.postgres.start()
        self.ways.restore()
        self.api_ways.restore()
        for worker in self.workers:
            worker.thaw()
        for process in processes_of(self._surroundings.temporary):
            if TRAINER in command_of(process):
                process.resume()
        if not self.redis.running:
            self.redis.start()
        while len(self.apis) > 1:
            self.apis.pop().close()
        for api in self.apis:
            if not api.running:
                api.start()
            api.wait_ready()
        self._end_jobs()

    def close(self) -> None:
        """End everything, and see that nothing is left."""
        codes = {worker.name: worker.stop() for worker in self.workers if worker.running}
        for api in self.apis:
            api.close()
        self.redis.stop(grace_s=3)
        self.ways.close()
        self.api_ways.close()
        self.database.close()
        left: list[psutil.Process] = processes_of(self._surroundings.temporary)
        for process in left:
            process.kill()
        assert not left
        assert set(codes.values()) <= {0}, codes
        assert not list(self._surroundings.temporary.iterdir()), "temporary files are left"
        shutil.rmtree(self._folder)

    def _end_jobs(self) -> None:
        unfinished = [job for job in self.client.jobs.list() if not job.state.is_terminal]
        for job in unfinished:
            job.cancel()
        if unfinished and not any(worker.running for worker in self.workers):
            self.worker()  # whose lease runs out where nobody is left to end the job
        self.client.jobs.wait(unfinished, timeout=60)

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


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
