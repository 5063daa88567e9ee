"""Attempts whose telemetry or result cannot be stored end with a recorded reason."""

from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from ampspec.jobs import Reason, State
from store.jobs import attempts
from tests.worker.conftest import Start


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """SQLite alone: the errors do not depend on the database."""
    return sqlite_url


@pytest.mark.parametrize("script", ["writes_invalid_frames", "writes_steps_twice"])
def test_invalid_telemetry_fails_the_job_without_a_retry(start: Start, script: str) -> None:
    job = start(script, runtime={"max_attempts": 3}).ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.INVALID_TELEMETRY)
    assert (job.attempt, job.step) == (1, 10)


def test_an_error_while_the_result_is_recorded_is_the_recorded_failure(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise IntegrityError("INSERT INTO secrets", {}, ValueError("too\nlong"))

    monkeypatch.setattr(attempts, "mark_succeeded", fail)
    job = start("good").ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.INTERNAL_ERROR)
    assert (job.message or "").startswith("The worker could not run the job: ValueError: too")
    assert "long" not in (job.message or "")
    assert "INSERT" not in (job.message or "")


def test_a_report_that_cannot_be_written_is_a_recorded_failure(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RecursionError("maximum recursion depth exceeded")

    monkeypatch.setattr("worker.attempt.attempt.attempt_report", fail)
    job = start("good").ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.INTERNAL_ERROR)
    assert "RecursionError" in (job.message or "")
