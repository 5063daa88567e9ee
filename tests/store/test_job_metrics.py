"""The metrics of jobs: written with evaluations and results, in the same transaction."""

import math

import pytest
from sqlalchemy import select

from ampspec.jobs import State
from ampspec.telemetry import Event, EventType
from store.jobs import attempts, jobs
from store.tables import JobMetric
from store.telemetry import ingest


@pytest.fixture
def running(make_job):
    return make_job(State.RUNNING)


@pytest.fixture
def metrics_of(database):
    """The metrics of a job: those for display, and the rows for lists."""

    def metrics_of(job_id):
        with database.read() as session:
            statement = select(JobMetric.name, JobMetric.value).where(JobMetric.job_id == job_id)
            rows = {row.name: row.value for row in session.execute(statement)}
            return jobs.get(session, job_id).metrics, rows

    return metrics_of


def evaluation(step, **metrics):
    return Event(EventType.EVALUATION, step, metrics)


def test_a_job_has_the_metrics_of_its_last_evaluation(
    in_transaction, running, metrics_of, make_block
):
    first = [make_block(0, 10), evaluation(9, val_loss=1.0, val_accuracy=0.5)]
    in_transaction(ingest.append, running.id, 1, first, entries_written=0)
    assert metrics_of(running.id)[1] == {"val_loss": 1.0, "val_accuracy": 0.5}
    second = [evaluation(19, val_loss=9.0), evaluation(29, val_loss=0.25)]
    in_transaction(ingest.append, running.id, 1, second, entries_written=2)
    assert metrics_of(running.id) == ({"val_loss": 0.25}, {"val_loss": 0.25})
    in_transaction(ingest.append, running.id, 1, [make_block(10, 10)], entries_written=4)
    assert metrics_of(running.id) == ({"val_loss": 0.25}, {"val_loss": 0.25})


def test_a_metric_that_is_not_finite_is_displayed_and_has_no_row(
    in_transaction, running, metrics_of
):
    entries = [evaluation(9, val_loss=math.nan, val_auc=math.inf, val_mae=2.0)]
    in_transaction(ingest.append, running.id, 1, entries, entries_written=0)
    shown, rows = metrics_of(running.id)
    assert shown == {"val_loss": "NaN", "val_auc": "Infinity", "val_mae": 2.0}
    assert rows == {"val_mae": 2.0}


def test_a_repeated_write_and_a_fenced_attempt_change_no_metrics(
    in_transaction, running, metrics_of
):
    entries = [evaluation(9, val_loss=1.0)]
    for _ in range(2):
        in_transaction(ingest.append, running.id, 1, entries, entries_written=0)
    in_transaction(attempts.requeue, running.id, 1)
    in_transaction(attempts.claim, running.id, "other")
    late = [evaluation(19, val_loss=7.0)]
    assert in_transaction(ingest.append, running.id, 1, late, entries_written=1) is None
    assert metrics_of(running.id) == ({"val_loss": 1.0}, {"val_loss": 1.0})


@pytest.mark.parametrize(
    "result", [{"val_loss": 0.5, "val_accuracy": None}, {"metrics": {"val_loss": 0.5}}]
)
def test_the_result_has_the_final_metrics(in_transaction, running, metrics_of, result):
    in_transaction(attempts.mark_succeeded, running.id, 1, result)
    assert metrics_of(running.id) == ({"val_loss": 0.5}, {"val_loss": 0.5})


def test_a_result_without_metrics_keeps_those_of_the_last_evaluation(
    in_transaction, running, metrics_of
):
    entries = [evaluation(9, val_loss=1.0)]
    in_transaction(ingest.append, running.id, 1, entries, entries_written=0)
    in_transaction(attempts.mark_succeeded, running.id, 1, {"val_loss": None})
    assert metrics_of(running.id) == ({"val_loss": 1.0}, {"val_loss": 1.0})


def test_deleting_a_job_deletes_its_metrics(in_transaction, running, database):
    in_transaction(attempts.mark_succeeded, running.id, 1, {"val_loss": 0.5})
    in_transaction(jobs.delete_job, running.id)
    with database.read() as session:
        assert session.scalars(select(JobMetric)).all() == []


def test_the_policy_of_a_job_is_the_one_that_it_started_with(in_transaction, make_job, database):
    job = make_job(State.STARTING, precision={"policy": "auto"})
    start = {"total_steps": 10, "first_step": 0}
    in_transaction(attempts.mark_running, job.id, 1, **start, policy="mixed_bfloat16")
    in_transaction(attempts.mark_running, job.id, 1, **start)
    with database.read() as session:
        row = jobs.get(session, job.id)
    assert (row.policy, row.resolved_policy) == ("auto", "mixed_bfloat16")


def test_the_policy_of_a_job_that_falls_back_is_float32(in_transaction, running, database):
    entries = [Event(EventType.FLOAT32_FALLBACK, 9, {}), evaluation(9, val_loss=1.0)]
    in_transaction(ingest.append, running.id, 1, entries, entries_written=0)
    with database.read() as session:
        assert jobs.get(session, running.id).resolved_policy == "float32"
