"""What a slot does when a bell rings."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.exc import OperationalError

from ampcore.spec import State
from service.logs import AddContext
from store import jobs
from store.database import Database
from store.tables import Job
from worker.tasks import work


def states(database: Database, *found: Any) -> list[str]:
    with database.read() as session:
        return [jobs.get(session, job.id).state for job in found]  # type: ignore[union-attr]


def test_one_bell_is_enough_for_all_that_wait(
    make_shop: Callable[..., Any], make_job: Callable[..., Any], database: Database
) -> None:
    waiting = [make_job(), make_job()]
    work(make_shop("good"))
    assert states(database, *waiting) == [State.SUCCEEDED] * 2


def test_the_job_that_is_next_is_taken_first(
    make_shop: Callable[..., Any], make_job: Callable[..., Any], database: Database
) -> None:
    later = make_job()
    urgent = make_job(runtime={"priority": 9})
    work(make_shop("good"))
    with database.read() as session:
        began = [jobs.get(session, job.id).started_at for job in (urgent, later)]  # type: ignore[union-attr]
    assert began == sorted(began)  # type: ignore[type-var]


def test_another_queues_job_is_left_alone(
    make_shop: Callable[..., Any], make_job: Callable[..., Any], database: Database
) -> None:
    other = make_job(runtime={"queue": "night"})
    work(make_shop("good"))
    assert states(database, other) == [State.QUEUED]


def test_a_worker_that_shuts_down_takes_nothing(
    make_shop: Callable[..., Any], make_job: Callable[..., Any], database: Database
) -> None:
    shop, job = make_shop("good"), make_job()
    shop.shutting_down.set()
    work(shop)
    assert states(database, job) == [State.QUEUED]


def test_a_bell_without_a_job_starts_nothing(make_shop: Callable[..., Any]) -> None:
    shop = make_shop("good")
    work(shop)
    assert shop.meter.reading()["steps_total"] == 0


def test_a_database_that_is_away_is_no_reason_to_break(
    make_shop: Callable[..., Any],
    make_job: Callable[..., Any],
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise OperationalError("SELECT", None, Exception("gone"))

    job = make_job()
    with monkeypatch.context() as patch:
        patch.setattr("worker.tasks.attempts.claim_next", away)
        work(make_shop("good"))
    assert "no job could be claimed" in caplog.text
    assert states(database, job) == [State.QUEUED]


def test_every_line_about_a_job_says_which_one_and_who_asked(
    make_shop: Callable[..., Any],
    make_job: Callable[..., Any],
    database: Database,
    caplog: pytest.LogCaptureFixture,
) -> None:
    job = make_job()
    with database.write() as session:
        session.execute(update(Job).values(request_id="r-1"))
    caplog.handler.addFilter(AddContext())
    with caplog.at_level(logging.INFO):
        work(make_shop("good"))
    lines = [record for record in caplog.records if record.name.startswith("worker.")]
    assert len(lines) >= 3
    for record in lines:
        found = [getattr(record, name) for name in ("job_id", "attempt", "request_id")]
        assert found == [job.id, 1, "r-1"]
