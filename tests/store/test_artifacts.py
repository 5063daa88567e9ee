from dataclasses import replace

import pytest

from ampcore.spec import State
from store import artifacts, attempts
from store.artifacts import CHECKPOINT, MODEL, Stored

FILE = Stored("attempt-1/checkpoints/10", CHECKPOINT, 10, size_bytes=5, sha256="a" * 64)


@pytest.fixture
def running(make_job):
    return make_job(State.RUNNING)


def paths(database, job_id, of=artifacts.listing):
    with database.read() as session:
        return [row.path for row in of(session, job_id)]


def test_a_file_counts_when_its_row_is_there(database, do, running):
    standing = do(artifacts.add, running.id, 1, FILE)
    assert standing.seq == running.seq + 1
    with database.read() as session:
        row = artifacts.get(session, running.id, FILE.path)
        assert {name: getattr(row, name) for name in vars(FILE)} == vars(FILE)
        assert (row.attempt, row.seq) == (1, standing.seq)
        assert artifacts.get(session, running.id, "elsewhere") is None


def test_a_file_that_is_told_again_replaces_the_first_one(database, do, running):
    do(artifacts.add, running.id, 1, FILE)
    do(artifacts.add, running.id, 1, replace(FILE, size_bytes=6))
    assert paths(database, running.id) == [FILE.path]
    with database.read() as session:
        assert artifacts.get(session, running.id, FILE.path).size_bytes == 6


def test_the_checkpoint_of_a_fenced_attempt_does_not_count(database, do, running):
    do(attempts.hand_back, running.id, 1)
    do(attempts.claim, running.id, "other")
    assert do(artifacts.add, running.id, 1, FILE) is None
    assert paths(database, running.id) == []


def test_the_newest_checkpoint_comes_first(database, do, running):
    for step in (10, 20, 15):  # 15 after a rewind
        do(artifacts.add, running.id, 1, replace(FILE, path=f"c/{step}", step=step))
    do(artifacts.add, running.id, 1, Stored("model", MODEL, None, 1, "b" * 64))
    assert paths(database, running.id, artifacts.checkpoints) == ["c/15", "c/20", "c/10"]
    do(artifacts.forget, running.id, ["c/10", "c/15"])
    assert paths(database, running.id) == ["c/20", "model"]
