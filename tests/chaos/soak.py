"""A soak: jobs train for minutes while everything around them fails, and none may notice.

`python -m tests.chaos.soak --minutes 15` starts a stack of its own: PostgreSQL, Redis, two API
servers, four workers with wrong clocks, and a slow store. Plain jobs train, are paused and resumed,
and gangs compete for the slots; meanwhile one fault after the other is caused. At the end every job
must have each of its steps once and the weights of an undisturbed run, no state may have promised
what was not stored, and nothing may be left behind. It prints a table, and exits with 1 if anything
was wrong. All of it runs on this machine, and stops by itself.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil
from sqlalchemy import select

from ampclient import AmpcoreError, Job
from ampspec.jobs import State
from store.tables import Artifact, FileRemoval
from tests import slow_store
from tests.chaos.cluster import SCRIPTED, Cluster
from tests.chaos.postgres import Postgres
from tests.chaos.reference_run import SPEC, assert_equals_reference, scripted_reference
from tests.chaos.service_processes import Api, Worker
from tests.waiting import wait_until
from worker.trainer.child.fork_server import TRAINER_NAME

LEASE_S: Final = 10.0
STALL_S: Final = 8.0
PACE: Final = 0.01
"""A job takes about six seconds."""
WORKERS: Final = 4
OPEN_JOBS: Final = 8
"""Jobs that have not ended, besides the gangs."""
GANGS: Final = 2
GANG_RANKS: Final = 3
"""Two gangs together need more than half of the slots."""
STORE_BYTES_PER_S: Final = 2e6
PAUSE_S: Final = 3.0
"""Between two faults."""


@dataclass
class Report:
    """What happened, and what was wrong."""

    faults: Counter[str] = field(default_factory=Counter)
    jobs: Counter[str] = field(default_factory=Counter)
    untrue: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        """Everything that was wrong, as sentences."""
        return [*self.untrue, *self.wrong, *self.left]


class Soak:
    """The stack, its load, and the faults.

    Args:
        folder: An empty folder.
        postgres: The server of the database, which is restarted.
        seed: Chooses the order of the faults.
    """

    def __init__(self, folder: Path, postgres: Postgres, seed: int) -> None:
        self._folder, self._random = folder, random.Random(seed)
        self._rate_file = folder / "store-rate"
        os.environ[slow_store.CONTROL] = str(self._rate_file)
        slow_store.set_rate(STORE_BYTES_PER_S)
        slow_store.install(folder / "site")
        root = Path(__file__).parents[2]
        self.cluster = Cluster(
            folder,
            postgres,
            pace=PACE,
            AMPCORE_LEASE_S=str(LEASE_S),
            AMPCORE_UPLOAD_STALL_S=str(STALL_S),
            AMPCORE_DRAIN_TIMEOUT_S="20",
            AMPCORE_ARTIFACTS_URL=f"slow://{folder}/store",
            PYTHONPATH=f"{root}:{folder / 'site'}",
            **{slow_store.CONTROL: str(self._rate_file)},
        )
        self.report = Report()
        self._jobs: list[Job] = []
        self._gangs: list[Job] = []
        self._clocks = 0
        self._faults: dict[str, Callable[[], None]] = {
            "API server killed": self._kill_api,
            "worker killed": self._kill_worker,
            "worker suspended beyond its lease": self._suspend_worker,
            "worker drained": self._drain_worker,
            "trainer killed": self._kill_trainer,
            "PostgreSQL restarted": lambda: self._restart_postgres("fast"),
            "PostgreSQL crashed": lambda: self._restart_postgres("immediate"),
            "Redis killed, and empty": self._kill_redis,
            "network of the workers cut": self._cut_network,
            "store ten times slower": lambda: self._change_store(STORE_BYTES_PER_S / 10, 5.0),
            "store hangs": lambda: self._change_store(0, STALL_S + 2),
            "store full": lambda: self._change_store(slow_store.FULL, 4.0),
            "clock of a worker jumps": self._jump_clock,
            "job paused": self._pause_job,
            "gang paused": self._pause_gang,
        }

    # ---- Running

    def run(self, seconds: float) -> Report:
        """Cause faults for so long, then let everything end, and check it."""
        self.cluster.api()
        self.cluster.api()
        for _ in range(WORKERS):
            self._start_worker()
        ends = time.monotonic() + seconds
        names: list[str] = []
        while time.monotonic() < ends:
            self._keep_load()
            names = names or self._random.sample(sorted(self._faults), len(self._faults))
            name = names.pop()
            print(f"{ends - time.monotonic():5.0f} s left: {name}", file=sys.stderr, flush=True)
            self._faults[name]()
            self.report.faults[name] += 1
            self._watch(PAUSE_S)
        self._end()
        self._check_store()
        return self.report

    def _watch(self, seconds: float) -> None:
        """Look at all jobs for so long, and resume what is paused."""
        until = time.monotonic() + seconds
        while True:
            self._look_at_jobs()
            if time.monotonic() >= until:
                return
            time.sleep(0.5)

    def _look_at_jobs(self) -> None:
        for job in (*self._jobs, *self._gangs):
            with suppress(AmpcoreError):
                self._look_at(job.refresh())

    def _look_at(self, job: Job) -> None:
        """Note a state that is not true, and let a paused or failed job go on."""
        if job.state == State.PAUSED:
            if job.step > 0 and not _has_file(job, "checkpoint"):
                self.report.untrue.append(f"{job.id} is paused at {job.step} without a checkpoint")
            self._try(job.resume)
        elif job.state == State.SUCCEEDED and not _has_file(job, "report"):
            self.report.untrue.append(f"{job.id} has succeeded without its report")
        elif job.state == State.FAILED:
            self.report.jobs[f"attempts that ended as failed: {job.reason}"] += 1
            if job.reason not in ("storage_unavailable", "checkpoint_failed", "worker_lost"):
                self.report.wrong.append(f"{job.id} failed: {job.reason}: {job.message}")
            self._try(job.retry)

    def _keep_load(self) -> None:
        """Submit jobs for those that have ended."""
        runtime = {**SPEC["runtime"], "max_attempts": 100}
        for group, count, spec in (
            (self._jobs, OPEN_JOBS, {**SPEC, "runtime": runtime}),
            (self._gangs, GANGS, _gang_spec(runtime)),
        ):
            unfinished = [job for job in group if not job.refresh().state.is_terminal]
            for _ in range(count - len(unfinished)):
                self._try(lambda spec=spec, group=group: group.append(self._submit(spec)))

    def _submit(self, spec: dict[str, Any]) -> Job:
        return self._client.jobs.submit(spec)

    @property
    def _client(self) -> Any:
        running = [api for api in self.cluster.apis if api.running]
        return self._random.choice(running).client

    @staticmethod
    def _try(action: Callable[[], object]) -> None:
        """Ask for something that a fault may make impossible for now."""
        with suppress(AmpcoreError):
            action()

    # ---- Faults

    def _kill_api(self) -> None:
        api: Api = self._random.choice(self.cluster.apis)
        api.kill()
        self._watch_with(api, 1.0)
        api.start()
        api.wait_ready()

    def _watch_with(self, gone: Api, seconds: float) -> None:
        """Use the other server meanwhile."""
        [other] = [api for api in self.cluster.apis if api is not gone]
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._try(lambda: list(other.client.jobs.list(limit=20)))
            time.sleep(0.1)

    def _start_worker(self) -> None:
        self._clocks += 1
        clock = self._folder / f"clock-{self._clocks}"
        clock.write_text(str(self._random.choice([0, 600, -600])))
        worker = self.cluster.worker(
            SCRIPTED,
            clock_file=clock,
            grace_s=2,
            AMPCORE_WORKER_SLOTS="2",
            AMPCORE_TRAINER_ISOLATION="off",
        )
        worker.clock_file = clock  # type: ignore[attr-defined]

    def _worker(self) -> Worker:
        return self._random.choice([worker for worker in self.cluster.workers if worker.running])

    def _kill_worker(self) -> None:
        self._worker().kill()
        self._start_worker()

    def _suspend_worker(self) -> None:
        worker = self._worker()
        worker.suspend()
        self._watch(LEASE_S + 4)
        worker.resume()

    def _drain_worker(self) -> None:
        worker = self._worker()
        registered = self.cluster.registered(worker)
        if registered is None:
            return
        self._client.workers.drain(registered.id, timeout_s=self._random.choice([1, 20]))
        self._start_worker()

    def _kill_trainer(self) -> None:
        trainers = [
            child
            for worker in self.cluster.workers
            if worker.running
            for child in worker.descendants()
            if _is_trainer(child)
        ]
        if trainers:
            with suppress(psutil.NoSuchProcess):
                self._random.choice(trainers).kill()

    def _restart_postgres(self, mode: str) -> None:
        self.cluster.postgres.stop(mode)
        time.sleep(1)
        self.cluster.postgres.start()
        self.cluster.database.engine.dispose()

    def _kill_redis(self) -> None:
        self.cluster.redis.stop(grace_s=0)
        time.sleep(1)
        self.cluster.redis.start()

    def _cut_network(self) -> None:
        self.cluster.proxies.postgres.cut()
        time.sleep(self._random.choice([2.0, LEASE_S + 3]))
        self.cluster.proxies.postgres.restore()

    def _change_store(self, rate: float, seconds: float) -> None:
        slow_store.set_rate(rate)
        self._watch(seconds)
        slow_store.set_rate(STORE_BYTES_PER_S)

    def _jump_clock(self) -> None:
        worker = self._worker()
        worker.clock_file.write_text(str(self._random.choice([-3600, -60, 60, 3600])))  # type: ignore[attr-defined]

    def _pause_job(self) -> None:
        running = [job for job in self._jobs if job.refresh().state == State.RUNNING]
        for job in running[:3]:
            self._try(job.pause)

    def _pause_gang(self) -> None:
        for job in self._gangs[-GANGS:]:
            self._try(job.pause)

    # ---- The end

    def _end(self) -> None:
        """Let all jobs end, and check each of them."""
        slow_store.set_rate(1e9)

        def unfinished() -> list[str]:
            self._look_at_jobs()
            jobs = [job.refresh() for job in (*self._jobs, *self._gangs)]
            return [f"{job.id} {job.state}" for job in jobs if job.state != State.SUCCEEDED]

        with suppress(AssertionError):
            wait_until(lambda: not unfinished(), "all jobs have succeeded")
        reference = scripted_reference()
        for kind, jobs in (("jobs", self._jobs), ("gangs", self._gangs)):
            for job in jobs:
                done = job.refresh()
                attempts = len(done.attempts())
                self.report.jobs[kind] += 1
                self.report.jobs["attempts"] += attempts
                self.report.jobs["jobs with more than one attempt"] += attempts > 1
                try:
                    assert_equals_reference(done, reference)
                except AssertionError as error:
                    what = f"{done.id} ({done.state}, {done.message}): {error}"
                    self.report.wrong.append(what[:500])

    def _check_store(self) -> None:
        """Note the files in the store that no row knows, and the rows without their file."""
        with self.cluster.database.read() as session:
            rows = session.execute(select(Artifact.job_id, Artifact.path)).all()
            removals = session.execute(select(FileRemoval.folder, FileRemoval.path)).all()
        store, recorded = self._folder / "store", {f"{row.job_id}/{row.path}" for row in rows}
        scheduled = {f"{row.folder}/{row.path}" for row in removals}
        stored = {
            str(file.relative_to(store))
            for file in store.rglob("*")
            if file.is_file() and file.suffix != ".part" and "storage-checks" not in file.parts
        }
        self.report.left += [f"{file} has no row" for file in stored - recorded - scheduled]
        self.report.wrong += [f"{file} is not stored" for file in recorded - stored]

    def close(self) -> None:
        """Stop the stack; what is left is a problem of the report."""
        self.report.left += self.cluster.end()


def _gang_spec(runtime: dict[str, Any]) -> dict[str, Any]:
    ranks = {"workers": GANG_RANKS, "devices": 1, "exchange": {"timeout_s": 20}}
    return {**SPEC, "name": "gang", "runtime": {**runtime, **ranks}}


def _has_file(job: Job, kind: str) -> bool:
    return any(file.kind == kind for file in job.artifacts())


def _is_trainer(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.name() == TRAINER_NAME[:15]
    return False


@contextmanager
def own_postgres() -> Iterator[Postgres]:
    """A PostgreSQL server that ends with the block."""
    folder = Path(tempfile.mkdtemp(prefix="ampcore-soak-postgres-"))
    server = Postgres(folder)
    try:
        yield server
    finally:
        server.close()
        shutil.rmtree(folder)


def soak(folder: Path, postgres: Postgres, seconds: float, seed: int) -> Report:
    """Run a soak in an empty folder, and stop everything that it has started."""
    running = Soak(folder, postgres, seed)
    try:
        running.run(seconds)
    finally:
        running.close()
    return running.report


def main() -> int:
    """Run a soak, and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ampcore-soak-"))
    with own_postgres() as postgres:
        report = soak(folder, postgres, 60 * arguments.minutes, arguments.seed)
    shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps({"faults": report.faults, "jobs": report.jobs}, indent=1))
    for problem in report.problems:
        print(f"WRONG: {problem}")
    print(f"{len(report.problems)} problems")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
