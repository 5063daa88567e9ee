"""A real trainer, killed amid its run: the next attempt's history equals an undisturbed one's."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import update

from ampcore.series import StepBlock
from ampcore.spec import State
from service.bells import Bell
from service.storage import Storage
from store import artifacts, attempts, jobs, steps
from store.database import Database
from store.tables import Job
from tests.worker.conftest import WORKER, Running
from worker.scratch import Scratch
from worker.standby import Standby
from worker.supervisor import PROGRAM
from worker.workshop import Workshop

LONG_S = 120
SPEC: dict[str, Any] = {
    "data": {"kind": "digits", "batch_size": 64},
    "precision": {"policy": "mixed_float16"},
    "loss_scale": {"mode": "dynamic", "initial": 2.0**24, "growth_interval": 50},
    "train": {"steps": 4_000, "checkpoint_every_s": 0.5},
    "runtime": {"engine": "graph"},
}


@pytest.fixture
def database(sqlite_url: str) -> Iterator[Database]:
    """One kind is enough: what the kinds differ in is tested without TensorFlow."""
    database = Database(sqlite_url)
    yield database
    database.close()


@pytest.fixture
def shop(database: Database, tmp_path: Path) -> Iterator[Workshop]:
    shop = Workshop(
        worker_id=WORKER,
        queues=("default",),
        database=database,
        storage=Storage((tmp_path / "artifacts").as_uri()),
        scratch=Scratch(tmp_path / "scratch", WORKER),
        standby=Standby(),
        data_root=tmp_path,
        bell=Bell("redis://127.0.0.1:1"),
    )
    yield shop
    shop.shutting_down.set()
    shop.standby.close()


def series(database: Database, job_id: str) -> StepBlock:
    with database.read() as session:
        block = steps.read(session, job_id, start=0, end=None, limit=100_000).block
    return block.select([name for name in block.names if name != "step_time_s"])


def test_a_killed_run_goes_on_as_if_nothing_had_happened(
    shop: Workshop,
    database: Database,
    make_job: Callable[..., Any],
    wait_until: Callable[..., Any],
) -> None:
    disturbed = Running(shop, database, make_job(**SPEC).id).start()

    def has_steps_behind_a_checkpoint() -> bool:
        with database.read() as session:
            saved = artifacts.checkpoints(session, disturbed.job_id)
        return bool(saved) and disturbed.job().step > (saved[0].step or 0) + 1

    wait_until(has_steps_behind_a_checkpoint, timeout_s=LONG_S)
    os.kill(trainer(), signal.SIGKILL)
    assert disturbed.ended(LONG_S).state == State.QUEUED
    with database.write() as session:
        session.execute(update(Job).values(not_before=None))
    undisturbed = make_job(**SPEC)
    disturbed.start().ended(LONG_S)

    with database.read() as session:
        first, second = attempts.listing(session, disturbed.job_id)
        other = jobs.get(session, undisturbed.id)
    assert (first.first_step, first.reason) == (0, "process_killed")
    assert 0 < (second.first_step or 0) < 4_000
    assert disturbed.job().state == State.SUCCEEDED
    assert other is not None
    assert other.state == State.SUCCEEDED
    assert series(database, disturbed.job_id) == series(database, undisturbed.id)
    digests = [job.summary["weights_digest"] for job in (disturbed.job(), other) if job.summary]
    assert digests[0] == digests[1]
    assert (disturbed.job().latest or {})["skipped"] == (other.latest or {})["skipped"] > 0
    told, undisturbed_told = disturbed.job().totals or {}, other.totals or {}
    for name in ("steps", "skipped", "applied_steps", "best_loss", "scale_health"):
        assert told[name] == undisturbed_told[name]
    assert told["attempted_steps"] == told["steps"] + told["repeated_steps"]
    assert told["repeated_steps"] == reached(database, disturbed.job_id) - second.first_step > 0
    assert told["repeated_s"] > 0
    assert undisturbed_told["repeated_steps"] == 0


def reached(database: Database, job_id: str) -> int:
    """How many steps the first attempt told of."""
    with database.read() as session:
        return steps.stretches(session, job_id, attempt=1)[0].end


def trainer() -> int:
    """The process that trains: the standby for the next job came later."""
    children = psutil.Process().children()
    found = [child for child in children if PROGRAM[-1] in child.cmdline()]
    return min(found, key=lambda child: child.create_time()).pid
