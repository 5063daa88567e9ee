"""A real trainer that is killed: the job's history equals that of an undisturbed run."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from ampspec.jobs import JobSpec, State
from ampspec.telemetry import StepBlock
from infra.notify import Notifier
from infra.storage import Storage
from server.submissions.extended_spec import extended_document
from store.database import Database
from store.files import artifacts
from store.files.artifacts import MODEL
from store.jobs import attempts, jobs
from store.tables import Job
from store.telemetry import evaluations, events, steps
from tests.chaos.programs import control as programs
from tests.chaos.programs.control import Control
from tests.worker.conftest import WORKER, Running
from worker.context import WorkerContext
from worker.trainer.standby import Standby
from worker.transfer.download_cache import DownloadCache
from worker.work_dirs import WorkDirs

pytestmark = pytest.mark.slow

TRAINER = Path(programs.__file__).with_name("paced_trainer.py")
BLOCK, STEPS = 22, 264
HELD_AT = 6 * BLOCK
"""The step at which the trainer waits until it is killed."""
SPEC: dict[str, Any] = {
    "data": {"kind": "digits", "batch_size": 64},
    "precision": {"policy": "mixed_float16"},
    "loss_scale": {"mode": "dynamic", "initial": 2.0**24, "growth_interval": 50},
    "train": {"steps": STEPS, "checkpoint_every_s": 1e-6},
    "runtime": {"engine": "graph"},
}

EXPLAINED = {**SPEC, "train": {"steps": 2 * BLOCK, "checkpoint_every_s": 1e-6}}


@pytest.fixture
def database(sqlite_url: str) -> Iterator[Database]:
    """SQLite alone: differences between the databases are tested without TensorFlow."""
    database = Database(sqlite_url)
    yield database
    database.close()


@pytest.fixture(scope="module")
def module_control(tmp_path_factory: pytest.TempPathFactory) -> Control:
    """The control of the fork server; tests use `control`."""
    return Control(tmp_path_factory.mktemp("control"), BLOCK)


@pytest.fixture(scope="module")
def standby(module_control: Control) -> Iterator[Standby]:
    """One fork server for all tests: importing TensorFlow takes it two seconds."""
    standby = Standby((sys.executable, "-u", str(TRAINER), module_control.argument()))
    yield standby
    standby.close()


@pytest.fixture
def control(module_control: Control) -> Iterator[Control]:
    """How far trainers may train."""
    yield module_control
    module_control.release()


@pytest.fixture
def context(
    database: Database, control: Control, standby: Standby, tmp_path: Path
) -> Iterator[WorkerContext]:
    context = WorkerContext(
        worker_id=WORKER,
        queues=("default",),
        database=database,
        storage=Storage((tmp_path / "artifacts").as_uri()),
        work_dirs=WorkDirs(tmp_path / "scratch", WORKER),
        standby=standby,
        data_root=tmp_path,
        download_cache=DownloadCache(tmp_path / "dataset-cache"),
        notifier=Notifier("redis://127.0.0.1:1"),
    )
    yield context
    context.shutting_down.set()


def series(database: Database, job_id: str) -> StepBlock:
    with database.read() as session:
        block = steps.read(session, job_id, start=0, end=None, limit=100_000).block
    return block.select([name for name in block.names if name != "step_time_s"])


def test_a_killed_run_resumes_to_the_same_history(
    context: WorkerContext,
    control: Control,
    database: Database,
    make_job: Callable[..., Any],
    wait_until: Callable[..., Any],
) -> None:
    control.hold(HELD_AT)
    disturbed = Running(context, database, make_job(**SPEC).id).start()

    def has_steps_behind_a_checkpoint() -> bool:
        with database.read() as session:
            saved = artifacts.checkpoints(session, disturbed.job_id)
        return bool(saved) and disturbed.job().step >= HELD_AT > (saved[0].step or 0)

    wait_until(has_steps_behind_a_checkpoint)
    os.kill(wait_until(lambda: control.pid(disturbed.job_id, 1)), signal.SIGKILL)
    assert disturbed.ended().state == State.QUEUED
    with database.write() as session:
        session.execute(update(Job).values(not_before=None))
    undisturbed = make_job(**SPEC)
    control.release()
    disturbed.start().ended()

    with database.read() as session:
        first, second = attempts.listing(session, disturbed.job_id)
        undisturbed_job = jobs.get(session, undisturbed.id)
    assert (first.first_step, first.reason) == (0, "process_killed")
    assert 0 < (second.first_step or 0) < STEPS
    assert disturbed.job().state == State.SUCCEEDED
    assert undisturbed_job is not None
    assert undisturbed_job.state == State.SUCCEEDED
    assert series(database, disturbed.job_id) == series(database, undisturbed.id)
    digests = [
        job.summary["weights_digest"] for job in (disturbed.job(), undisturbed_job) if job.summary
    ]
    assert digests[0] == digests[1]
    assert (
        (disturbed.job().latest or {})["skipped"] == (undisturbed_job.latest or {})["skipped"] > 0
    )
    totals, undisturbed_totals = disturbed.job().totals or {}, undisturbed_job.totals or {}
    for name in ("steps", "skipped", "applied_steps", "best_loss", "scale_health"):
        assert totals[name] == undisturbed_totals[name]
    assert totals["attempted_steps"] == totals["steps"] + totals["repeated_steps"]
    assert totals["repeated_steps"] == reached(database, disturbed.job_id) - second.first_step > 0
    assert totals["repeated_s"] > 0
    assert undisturbed_totals["repeated_steps"] == 0


def test_an_extended_job_equals_one_that_trained_for_all_epochs_at_once(
    context: WorkerContext, database: Database, make_job: Callable[..., Any]
) -> None:
    """Fails if the last checkpoint had the averages of the weights, as the saved model has."""
    averaged = {**SPEC, "optimizer": {"ema": 0.5}}
    short = {**averaged, "train": {"epochs": 2, "checkpoint_every_s": 3600.0}}
    long = {**averaged, "train": {"epochs": 4, "checkpoint_every_s": 3600.0}}
    first = Running(context, database, make_job(**short).id)
    assert first.start().ended().state == State.SUCCEEDED
    with database.write() as session:
        origin = jobs.Origin("default", extends=first.job_id)
        spec = JobSpec.parse({**first.job().spec, **long, "name": "extended"})
        extension_id = jobs.create(session, spec, origin).id
    extension, at_once = (
        Running(context, database, job_id) for job_id in (extension_id, make_job(**long).id)
    )
    extension.start().ended()

    assert extension.job().state == at_once.job().state == State.SUCCEEDED
    with database.read() as session:
        [attempt] = attempts.listing(session, extension_id)
    assert attempt.first_step == 2 * BLOCK
    pieces = [series(database, run.job_id) for run in (first, extension)]
    assert StepBlock.concat(pieces) == series(database, at_once.job_id)
    summaries = [run.job().summary or {} for run in (extension, at_once)]
    assert summaries[0]["weights_digest"] == summaries[1]["weights_digest"]
    with database.read() as session:
        evaluations_of_runs = [
            evaluations.read(session, run.job_id, limit=9) for run in (first, extension, at_once)
        ]
    assert evaluations_of_runs[0] + evaluations_of_runs[1] == evaluations_of_runs[2]
    assert [run.epoch for run in evaluations_of_runs[2]] == [0, 1, 2, 3]


def test_a_cosine_in_two_parts_equals_one_in_a_whole(
    context: WorkerContext, database: Database, make_job: Callable[..., Any]
) -> None:
    """As a search trains a run on: the first part ends in the middle of an epoch.

    Fails without `end_step`: the rates of the first part would fall to 0 at its end.
    """

    def spec(steps: int, **schedule: int) -> dict[str, Any]:
        optimizer = {"schedule": {"kind": "cosine", **schedule}}
        train = {"steps": steps, "checkpoint_every_s": 3600.0}
        return {**SPEC, "optimizer": optimizer, "train": train}

    first = Running(context, database, make_job(**spec(BLOCK // 2, end_step=2 * BLOCK)).id)
    assert first.start().ended().state == State.SUCCEEDED
    with database.write() as session:
        origin = jobs.Origin("default", extends=first.job_id)
        document = {**first.job().spec, **spec(2 * BLOCK, end_step=2 * BLOCK)}
        extension_id = jobs.create(session, JobSpec.parse(document), origin).id
    extension = Running(context, database, extension_id)
    extension.start().ended()
    at_once = Running(context, database, make_job(**spec(2 * BLOCK)).id)
    at_once.start().ended()
    pieces = [series(database, run.job_id) for run in (first, extension)]
    assert StepBlock.concat(pieces) == series(database, at_once.job_id)
    summaries = [run.job().summary or {} for run in (extension, at_once)]
    assert summaries[0]["weights_digest"] == summaries[1]["weights_digest"]


def test_a_job_that_stopped_early_is_complete_and_can_be_extended(
    context: WorkerContext, database: Database, make_job: Callable[..., Any]
) -> None:
    # Nothing improves by that much: the second evaluation uses up the patience.
    stopping = {"patience": 1, "min_delta": 1e6}
    train = {"epochs": 9, "early_stopping": stopping, "keep": "both", "checkpoint_every_s": 3600.0}
    first = Running(context, database, make_job(**{**SPEC, "train": train}).id)
    job = first.start().ended()
    assert (job.state, job.step, job.total_steps) == (State.SUCCEEDED, 2 * BLOCK, 2 * BLOCK)
    assert (job.summary or {})["stopped_early"]["epoch"] == 1
    with database.write() as session:
        models = [
            artifact.path
            for artifact in artifacts.listing(session, job.id)
            if artifact.kind == MODEL
        ]
        document = extended_document(session, job, 1)
        origin = jobs.Origin("default", extends=job.id)
        extension_id = jobs.create(session, JobSpec.parse(document), origin).id
    assert models == ["attempt-1/model.keras", "attempt-1/model-best.keras"]

    extension = Running(context, database, extension_id).start().ended()
    assert (extension.state, extension.step) == (State.SUCCEEDED, 3 * BLOCK)
    summary = extension.summary or {}
    assert summary["stopped_early"] is None
    assert summary["best"]["value"] <= (job.summary or {})["best"]["value"]


def reached(database: Database, job_id: str) -> int:
    """How many steps the first attempt stored."""
    with database.read() as session:
        return steps.visible_ranges(session, job_id, attempt=1)[0].end


def test_a_step_is_explained_by_a_job_from_the_nearest_checkpoint_of_the_other(
    context: WorkerContext, database: Database, make_job: Callable[..., Any]
) -> None:
    """Its skipped first steps from the start, and its last ones from a checkpoint, bit for bit."""
    trained = Running(context, database, make_job(**EXPLAINED).id)
    assert trained.start().ended().state == State.SUCCEEDED
    recorded = series(database, trained.job_id)
    skipped = int(recorded["skipped"].argmax())
    with database.read() as session:
        saved = [row.step or 0 for row in artifacts.checkpoints(session, trained.job_id)]
    for step, first, attribution in (
        (skipped, 0, "loss_scale"),
        (
            2 * BLOCK - 1,
            max((saved_step for saved_step in saved if saved_step < 2 * BLOCK), default=0),
            "normal",
        ),
    ):
        with database.write() as session:
            origin = jobs.Origin("default", explains=trained.job_id, explain_step=step)
            spec = JobSpec.parse(trained.job().spec)
            explaining = Running(context, database, jobs.create(session, spec, origin).id)
        explaining.start().ended()

        assert explaining.job().state == State.SUCCEEDED, explaining.job().message
        with database.read() as session:
            [attempt] = attempts.listing(session, explaining.job_id)
            [event] = events.read(session, explaining.job_id, limit=9, types=["explanation"])
        assert (attempt.first_step, event.step) == (first, step)
        assert event.data["attribution"] == attribution
        assert event.data["values"]["loss"] == recorded["loss"][step]
        assert event.data["recorded"]["loss"] == recorded["loss"][step]
        repeated = series(database, explaining.job_id)
        assert repeated == recorded.between(first, step + 1)
