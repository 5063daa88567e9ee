"""Revision 0007 on jobs of older versions: their metrics and policies are filled in."""

import pytest
import sqlalchemy as sa
from alembic import command

from server.migrate import alembic_config, migrate
from store.database import Database
from store.jobs import jobs
from store.tables import JobMetric
from tests.migrations import old_rows
from tests.migrations.old_rows import MOMENT

JOB = {**old_rows.JOB, "policy": "auto", "spec": '{"name": "old"}', "summary": None}
EVALUATED, SUCCEEDED, QUEUED, DAMAGED = ("0" * 11 + str(n) for n in range(4))
EVENTS = [
    (EVALUATED, 1, "started", '{"policy": "mixed_bfloat16"}'),
    (EVALUATED, 2, "evaluation", '{"val_loss": 0.5, "val_accuracy": 0.8}'),
    (EVALUATED, 3, "evaluation", '{"val_loss": 0.25, "val_auc": "NaN", "note": 7}'),
    (DAMAGED, 1, "started", "[]"),
    (DAMAGED, 2, "evaluation", f'{{"val_loss": {10**400}}}'),
]


@pytest.fixture
def upgraded(empty_url, insert):
    """A database that was at revision 0006 with four jobs, upgraded."""
    database = Database(empty_url)
    with database.engine.execution_options(writes=True).begin() as connection:
        command.upgrade(alembic_config(connection), "0006")
        summaries = {SUCCEEDED: '{"val_loss": "Infinity", "val_accuracy": 1, "engine": "xla"}'}
        for job_id in (EVALUATED, SUCCEEDED, QUEUED, DAMAGED):
            attempt = 0 if job_id == QUEUED else 1
            row = {**JOB, "id": job_id, "attempt": attempt, "summary": summaries.get(job_id)}
            if connection.dialect.name == "postgresql" and row["summary"] is not None:
                summary = row.pop("summary")
                insert(connection, "jobs", row)
                update = "UPDATE jobs SET summary = CAST(:summary AS jsonb) WHERE id = :id"
                connection.execute(sa.text(update), {"summary": summary, "id": job_id})
            else:
                row = {name: value for name, value in row.items() if value is not None}
                insert(connection, "jobs", row)
        for job_id, seq, type_, data in EVENTS:
            event = {"job_id": job_id, "seq": seq, "attempt": 1, "type": type_, "data": data}
            insert(connection, "events", {**event, "created_at": MOMENT})
    database.close()
    migrate(empty_url)
    database = Database(empty_url)
    yield database
    database.close()


def test_the_metrics_of_older_jobs_are_those_of_their_last_evaluation(upgraded):
    with upgraded.read() as session:
        metrics = {job_id: jobs.get(session, job_id).metrics for job_id in (EVALUATED, SUCCEEDED)}
        other_metrics = [jobs.get(session, job_id).metrics for job_id in (QUEUED, DAMAGED)]
        statement = sa.select(JobMetric).order_by(JobMetric.job_id, JobMetric.name)
        rows = [(row.job_id, row.name, row.value) for row in session.scalars(statement)]
    assert metrics[EVALUATED] == {"val_loss": 0.25, "val_auc": "NaN"}
    assert metrics[SUCCEEDED] == {"val_loss": "Infinity", "val_accuracy": 1}
    assert other_metrics == [None, None]
    assert rows == [(EVALUATED, "val_loss", 0.25), (SUCCEEDED, "val_accuracy", 1.0)]


def test_the_policy_of_older_jobs_is_that_of_their_last_start(upgraded):
    with upgraded.read() as session:
        policies = [jobs.get(session, job_id).resolved_policy for job_id in (EVALUATED, DAMAGED)]
    assert policies == ["mixed_bfloat16", None]
