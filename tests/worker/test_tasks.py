"""What a slot does with a message: claim and run queued jobs."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.exc import OperationalError

from ampspec.jobs import State
from infra.log_config import ContextFilter
from store.database import Database
from store.jobs import jobs
from store.tables import Job
from worker.tasks import run_queued_jobs


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: the store has its own tests on both databases."""
    return sqlite_url


def states(database: Database, *rows: Any) -> list[str]:
    with database.read() as session:
        return [jobs.get(session, job.id).state for job in rows]  # type: ignore[union-attr]


def test_one_message_runs_all_queued_jobs(
    make_context: Callable[..., Any], make_job: Callable[..., Any], database: Database
) -> None:
    queued = [make_job(), make_job()]
    run_queued_jobs(make_context("good"))
    assert states(database, *queued) == [State.SUCCEEDED] * 2


def test_jobs_run_by_priority(
    make_context: Callable[..., Any], make_job: Callable[..., Any], database: Database
) -> None:
    later = make_job()
    urgent = make_job(runtime={"priority": 9})
    run_queued_jobs(make_context("good"))
    with database.read() as session:
        began = [jobs.get(session, job.id).started_at for job in (urgent, later)]  # type: ignore[union-attr]
    assert began == sorted(began)  # type: ignore[type-var]


def test_a_job_of_another_queue_stays_queued(
    make_context: Callable[..., Any], make_job: Callable[..., Any], database: Database
) -> None:
    other_job = make_job(runtime={"queue": "night"})
    run_queued_jobs(make_context("good"))
    assert states(database, other_job) == [State.QUEUED]


def test_a_worker_that_shuts_down_claims_nothing(
    make_context: Callable[..., Any], make_job: Callable[..., Any], database: Database
) -> None:
    context, job = make_context("good"), make_job()
    context.shutting_down.set()
    run_queued_jobs(context)
    assert states(database, job) == [State.QUEUED]


def test_a_message_without_a_job_runs_nothing(make_context: Callable[..., Any]) -> None:
    context = make_context("good")
    run_queued_jobs(context)
    assert context.metrics.reading()["steps_total"] == 0


def test_an_unreachable_database_leaves_the_job_queued(
    make_context: Callable[..., Any],
    make_job: Callable[..., Any],
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OperationalError("SELECT", None, Exception("gone"))

    job = make_job()
    with monkeypatch.context() as patch:
        patch.setattr("worker.tasks.attempts.claim_next", fail)
        run_queued_jobs(make_context("good"))
    assert "cannot claim a job" in caplog.text
    assert states(database, job) == [State.QUEUED]


def test_log_lines_carry_the_job_the_attempt_and_the_request_id(
    make_context: Callable[..., Any],
    make_job: Callable[..., Any],
    database: Database,
    caplog: pytest.LogCaptureFixture,
) -> None:
    job = make_job()
    with database.write() as session:
        session.execute(update(Job).values(request_id="r-1"))
    caplog.handler.addFilter(ContextFilter())
    with caplog.at_level(logging.INFO):
        run_queued_jobs(make_context("good"))
    lines = [record for record in caplog.records if record.name.startswith("worker.")]
    assert len(lines) >= 3
    for record in lines:
        fields = [getattr(record, name) for name in ("job_id", "attempt", "request_id")]
        assert fields == [job.id, 1, "r-1"]
