"""Migrations on a database of version 0.5 that has rows in every table."""

import pytest
import sqlalchemy as sa
from alembic import command

from server import schema
from server.migrate import alembic_config, migrate
from store import workers
from store.access import tokens
from store.database import Database
from store.files import artifact_quota
from store.jobs import attempts, jobs
from store.telemetry import steps

MOMENT = "2026-11-01 10:00:00"
JOB = {
    "id": "0123456789ab",
    "name": "old",
    "policy": "float32",
    "model": "mlp",
    "labels": '{"team": "vision"}',
    "spec": '{"name": "old"}',
    "state": "queued",
    "reason": None,
    "attempt": 1,
    "seq": 3,
    "step": 4,
    "created_at": MOMENT,
    "updated_at": MOMENT,
    "project": "default",
    "priority": 5,
    "queue": "default",
    "max_attempts": 1,
    "failures": 0,
    "queued_at": MOMENT,
    "told": 0,
}
ROWS = {
    "jobs": JOB,
    "tokens": {
        "id": "t",
        "name": "ada",
        "digest": tokens.digest_of("amp_x"),
        "created_at": MOMENT,
        "role": "admin",
        "project": "default",
    },
    "workers": {
        "id": "w",
        "hostname": "h",
        "pid": 1,
        "slots": 1,
        "version": "1",
        "started_at": MOMENT,
        "last_seen_at": MOMENT,
        "queues": '["default"]',
    },
    "attempts": {
        "job_id": JOB["id"],
        "attempt": 1,
        "worker_id": "w",
        "outcome": "failed",
        "reason": "process_killed",
        "message": "Killed.",
        "started_at": MOMENT,
        "finished_at": MOMENT,
        "waited_s": 0.0,
    },
    "events": {
        "job_id": JOB["id"],
        "seq": 1,
        "attempt": 0,
        "type": "state",
        "step": 0,
        "data": '{"state": "queued"}',
        "created_at": MOMENT,
    },
    "artifacts": {
        "job_id": JOB["id"],
        "path": "model.keras",
        "attempt": 1,
        "kind": "model",
        "size_bytes": 5,
        "sha256": "a" * 64,
        "seq": 2,
        "created_at": MOMENT,
    },
}
BLOCK = {
    "job_id": JOB["id"],
    "attempt": 1,
    "first_step": 0,
    "end_step": 4,
    "skipped": 0,
    "seq": 2,
    "examples": 4,
    "duration_s": 1.0,
    "skipped_s": 0.0,
    "created_at": MOMENT,
}


@pytest.fixture
def url(empty_url, insert, make_block):
    """The address of a database at version 0.5 with rows in every table."""
    database = Database(empty_url)
    with database.engine.execution_options(writes=True).begin() as connection:
        command.upgrade(alembic_config(connection), "0003")
        for table, row in ROWS.items():
            insert(connection, table, row)
        payload = make_block(0, 4).payload
        insert(connection, "step_blocks", {**BLOCK, "payload": payload})
    database.close()
    return empty_url


@pytest.fixture
def upgraded(url):
    """That database, upgraded to the newest revision."""
    migrate(url)
    database = Database(url)
    yield database
    database.close()


def test_the_upgrade_keeps_every_row_with_valid_values(upgraded):
    with upgraded.read() as session:
        job = jobs.get(session, JOB["id"])
        assert (job.name, job.labels, job.step, job.seq) == ("old", {"team": "vision"}, 4, 3)
        assert (job.project, job.priority, job.queue) == ("default", 5, "default")
        assert (job.failures, job.entries_written, job.queued_at) == (0, 0, job.created_at)
        [attempt] = attempts.listing(session, job.id)
        assert (attempt.outcome, attempt.message, attempt.waited_s) == ("failed", "Killed.", 0.0)
        token = tokens.find_valid(session, tokens.digest_of("amp_x")).token
        assert (token.name, token.role, token.project) == ("ada", "admin", "default")
        assert artifact_quota.stored_bytes(session) == {"default": 5}
        [(worker, state)] = workers.listing(session)
        assert (worker.id, worker.queues, state) == ("w", ["default"], "lost")
        reading = steps.read(session, job.id, start=0, end=None, limit=10)
        assert reading.block["loss"].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_job_of_version_0_5_can_be_claimed(upgraded):
    with upgraded.write() as session:
        job = attempts.claim_next(session, "w", ["default"])
        assert (job.id, job.attempt) == (JOB["id"], 2)


def test_the_downgrade_keeps_every_row(upgraded):
    with upgraded.engine.execution_options(writes=True).connect() as connection:
        if upgraded.engine.dialect.name == "sqlite":
            connection.connection.dbapi_connection.execute("PRAGMA foreign_keys = OFF")
        with connection.begin():
            command.downgrade(alembic_config(connection), "0003")
    with upgraded.engine.begin() as connection:
        for table in (*ROWS, "step_blocks"):
            counted = sa.select(sa.func.count()).select_from(sa.table(table))
            assert connection.scalar(counted) == 1
        [row] = connection.execute(sa.text("SELECT name, state, attempt, seq, step FROM jobs"))
        assert tuple(row) == ("old", "queued", 1, 3, 4)
        assert connection.scalar(sa.text("SELECT outcome FROM attempts")) == "failed"


def test_the_upgrade_succeeds_again_after_a_downgrade(url, upgraded):
    with upgraded.engine.execution_options(writes=True).connect() as connection:
        if upgraded.engine.dialect.name == "sqlite":
            connection.connection.dbapi_connection.execute("PRAGMA foreign_keys = OFF")
        with connection.begin():
            command.downgrade(alembic_config(connection), "0003")
    migrate(url)
    with upgraded.read() as session:
        assert jobs.get(session, JOB["id"]).name == "old"


def test_a_database_from_before_version_0_5_is_refused(empty_url):
    migrate(empty_url)
    database = Database(empty_url)
    with database.engine.execution_options(writes=True).begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0002'"))
    with pytest.raises(schema.SchemaTooOld, match=r"revision 0002.*with version 0\.5 first"):
        migrate(empty_url)
    assert schema.revision_of(database) == "0002"
    database.close()
