from dataclasses import replace

import pytest

from ampspec.jobs import State
from store.files import artifacts
from store.files.artifacts import CHECKPOINT, MODEL, StoredArtifact
from store.jobs import attempts

FILE = StoredArtifact("attempt-1/checkpoints/10", CHECKPOINT, 10, size_bytes=5, sha256="a" * 64)


@pytest.fixture
def running(make_job):
    return make_job(State.RUNNING)


def paths(database, job_id, of=artifacts.listing):
    with database.read() as session:
        return [row.path for row in of(session, job_id)]


def test_adding_an_artifact_stores_its_row_and_increments_the_seq(
    database, in_transaction, running
):
    lease = in_transaction(artifacts.add, running.id, 1, FILE)
    assert lease.seq == running.seq + 1
    with database.read() as session:
        row = artifacts.get(session, running.id, FILE.path)
        assert {name: getattr(row, name) for name in vars(FILE)} == vars(FILE)
        assert (row.attempt, row.seq) == (1, lease.seq)
        assert artifacts.get(session, running.id, "elsewhere") is None


def test_a_repeated_record_replaces_the_first_one(database, in_transaction, running):
    in_transaction(artifacts.add, running.id, 1, FILE)
    in_transaction(artifacts.add, running.id, 1, replace(FILE, size_bytes=6))
    assert paths(database, running.id) == [FILE.path]
    with database.read() as session:
        assert artifacts.get(session, running.id, FILE.path).size_bytes == 6


def test_a_fenced_attempt_cannot_add_a_checkpoint(database, in_transaction, running):
    in_transaction(attempts.requeue, running.id, 1)
    in_transaction(attempts.claim, running.id, "other")
    assert in_transaction(artifacts.add, running.id, 1, FILE) is None
    assert paths(database, running.id) == []


def test_the_newest_checkpoint_comes_first(database, in_transaction, running):
    for step in (10, 20, 15):  # 15 after a rewind
        in_transaction(artifacts.add, running.id, 1, replace(FILE, path=f"c/{step}", step=step))
    in_transaction(artifacts.add, running.id, 1, StoredArtifact("model", MODEL, None, 1, "b" * 64))
    assert paths(database, running.id, artifacts.checkpoints) == ["c/15", "c/20", "c/10"]
    in_transaction(artifacts.forget, running.id, ["c/10", "c/15"])
    assert paths(database, running.id) == ["c/20", "model"]
