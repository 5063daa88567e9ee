"""Revision 0006 on a database of version 0.5: every row stays, and reads as before."""

import pytest
import sqlalchemy as sa
from alembic import command

from ampspec.telemetry import StepBlock
from ampspec.telemetry.steps.codec import decode, encode
from ampspec.telemetry.steps.merge_index import build_merge_index, encode_merge_index
from server.migrate import alembic_config
from store.database import Database
from store.jobs import jobs
from store.telemetry import event_stream, steps

MOMENT = "2026-11-20 10:00:00"
JOB_ID = "0123456789ab"
JOB = {
    "id": JOB_ID,
    "project": "default",
    "name": "old",
    "policy": "float32",
    "model": "mlp",
    "labels": "{}",
    "spec": '{"name": "old"}',
    "priority": 7,
    "queue": "default",
    "max_attempts": 3,
    "state": "queued",
    "attempt": 1,
    "failures": 1,
    "queued_at": MOMENT,
    "seq": 3,
    "told": 3,
    "step": 6,
    "woken_at": MOMENT,
    "created_at": MOMENT,
    "updated_at": MOMENT,
}
ATTEMPT = {
    "job_id": JOB_ID,
    "attempt": 1,
    "worker_id": "w",
    "waited_s": 0.5,
    "outcome": "failed",
    "reason": "process_killed",
    "message": "Killed.",
    "started_at": MOMENT,
    "finished_at": MOMENT,
}
ARTIFACTS = [
    {
        "job_id": JOB_ID,
        "path": path,
        "attempt": 1,
        "kind": kind,
        "step": step,
        "size_bytes": 1,
        "sha256": "0" * 64,
        "seq": 2,
        "created_at": MOMENT,
    }
    for path, kind, step in (
        ("attempt-1/checkpoints/checkpoint-000001-step-6.safetensors", "checkpoint", 5),
        ("attempt-1/report.json", "report", None),
    )
]
ORDERS = {"jobs": "id", "attempts": "attempt", "step_blocks": "seq", "artifacts": "path"}
"""The tables, and the column to sort their rows by: PostgreSQL moves rows that are updated."""
RENAMED = {"told": "entries_written", "woken_at": "dispatched_at", "marks": "merge_index"}
INDEXES = {
    "jobs": ("ix_jobs_in_turn", "ix_jobs_claim_order"),
    "step_blocks": ("ix_step_blocks_loose", "ix_step_blocks_unmerged"),
}


@pytest.fixture
def database(empty_url, insert, make_block):
    """A database at revision 0005: a job with one merged block (of two) and one that is not."""
    database = Database(empty_url)
    with database.engine.execution_options(writes=True).begin() as connection:
        command.upgrade(alembic_config(connection), "0005")
        insert(connection, "jobs", JOB)
        insert(connection, "attempts", ATTEMPT)
        for row in ARTIFACTS:
            insert(connection, "artifacts", row)
        for row in _blocks(make_block):
            insert(connection, "step_blocks", row)
    yield database
    database.close()


def _blocks(make_block):
    steps = [make_block(first, 2) for first in (0, 2, 4)]
    blocks = [decode(block.payload) for block in steps]
    index = build_merge_index([(1, 2, blocks[0].stats), (2, 4, blocks[1].stats)])
    merged = StepBlock.concat(blocks[:2])
    for block, seq, marks in ((merged, 2, encode_merge_index(index)), (blocks[2], 3, None)):
        yield {
            "job_id": JOB_ID,
            "attempt": 1,
            "first_step": block.first_step,
            "end_step": block.end_step,
            "skipped": 0,
            "seq": seq,
            "examples": block.stats.examples,
            "duration_s": block.stats.duration_s,
            "skipped_s": 0.0,
            "best_loss": block.stats.best_loss,
            "created_at": MOMENT,
            "marks": marks,
            "payload": encode(block),
        }


def _rows(database):
    """Every column of every row, by table and name."""
    with database.engine.connect() as connection:
        return {
            table: [
                dict(row)
                for row in connection.execute(
                    sa.text(f"SELECT * FROM {table} ORDER BY {order}")  # noqa: S608 - constants of this file
                ).mappings()
            ]
            for table, order in ORDERS.items()
        }


def _index_names(database, table):
    return {index["name"] for index in sa.inspect(database.engine).get_indexes(table)}


def _upgrade(database, revision="head"):
    with database.engine.execution_options(writes=True).begin() as connection:
        command.upgrade(alembic_config(connection), revision)
    database.engine.dispose()  # PostgreSQL keeps plans of the old columns


def test_every_value_stays_under_its_new_name(database):
    old_rows = _rows(database)
    _upgrade(database, "0006")
    renamed = {
        table: [{RENAMED.get(name, name): value for name, value in row.items()} for row in rows]
        for table, rows in old_rows.items()
    }
    # An artifact's step was the index of the last step before it, and is the number of steps done.
    for artifact in renamed["artifacts"]:
        artifact["step"] = None if artifact["step"] is None else artifact["step"] + 1
    assert {row["step"] for row in renamed["artifacts"]} == {6, None}
    assert _rows(database) == renamed


def test_the_upgraded_job_and_its_steps_can_be_read(database):
    _upgrade(database)
    with database.read() as session:
        job = jobs.get(session, JOB_ID)
        assert (job.entries_written, job.dispatched_at) == (3, job.created_at)
        reading = steps.read(session, JOB_ID, start=0, end=None, limit=10)
        assert reading.block["loss"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        # From inside the merged block: its merge index says which of its steps came with seq 2.
        entries, until = event_stream.read(session, JOB_ID, after_seq=1, until=3)
        assert [(entry.seq, entry.block.first_step) for entry in entries] == [(2, 2), (3, 4)]
        assert until == 3


def test_the_indexes_have_their_new_names(database):
    _upgrade(database)
    for table, (old, new) in INDEXES.items():
        assert new in _index_names(database, table)
        assert old not in _index_names(database, table)


def test_the_downgrade_restores_revision_0005(database):
    old_rows = _rows(database)
    _upgrade(database)
    with database.engine.execution_options(writes=True).begin() as connection:
        command.downgrade(alembic_config(connection), "0005")
    database.engine.dispose()
    assert _rows(database) == old_rows
    for table, (old, new) in INDEXES.items():
        assert old in _index_names(database, table)
        assert new not in _index_names(database, table)
