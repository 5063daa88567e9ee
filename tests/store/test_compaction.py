"""Merging that is killed, that others are quicker in, or that has nothing to do."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sqlalchemy import delete, select

from ampcore.spec import State
from server.compact import Compactor
from store import attempts, compaction, ingest, jobs, loose, steps
from store.loose import ENOUGH, SEGMENT, Loose
from store.tables import Job, StepBlockRow, StepLevel, StepPoints
from tests.waiting import join

CHILD = Path(__file__).with_name("killed_compactor.py")


@pytest.fixture
def told(do, make_job, make_block):
    """A job that has ended, of 40 blocks of 10 steps each."""
    job = make_job(State.RUNNING)
    blocks = [make_block(first, 10, skipped=first == 50) for first in range(0, 400, 10)]
    do(ingest.append, job.id, 1, blocks, told=0)
    do(attempts.mark_succeeded, job.id, 1, {})
    return job


def seen(database, job_id):
    with database.read() as session:
        return steps.read(session, job_id, start=0, end=None, limit=10**6).block


def rows(database, *tables):
    with database.read() as session:
        return [len(session.scalars(select(table)).all()) for table in tables]


ALL = (StepBlockRow, StepLevel, StepPoints)


@pytest.fixture
def compact(database_url):
    """Merges in a process that is killed at the statement of that number; its exit code."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, CHILD, database_url], **pipes) as process:

        def ask(at):
            process.stdin.write(f"{at}\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        yield ask
        process.stdin.close()


def test_killed_at_any_statement_it_leaves_all_as_it_was(database, compact, told):
    before = seen(database, told.id)
    assert len(before) == 400
    at, killed = 0, True
    while killed:
        outcome = compact(at)
        killed = outcome == -signal.SIGKILL
        assert killed or outcome == 0
        assert seen(database, told.id) == before
        assert rows(database, *ALL) == ([40, 0, 0] if killed else [1, 2, 1])
        at += 3  # every third: each takes a third of a second
    assert at > 9


def test_who_comes_second_changes_nothing(database, do, told):
    with database.read() as session:
        [whose] = loose.waiting(session, 10)
        tail = compaction.read(session, whose)
    before = seen(database, told.id)
    do(compaction.write, compaction.merge(tail))
    first = rows(database, *ALL)
    with pytest.raises(compaction.Outdated):
        do(compaction.write, compaction.merge(tail))
    assert rows(database, *ALL) == first == [1, 2, 1]
    assert seen(database, told.id) == before


def test_a_full_block_is_merged_once(database, do, make_job, make_block):
    job = make_job(State.RUNNING)
    do(ingest.append, job.id, 1, [make_block(0, SEGMENT)], told=0)
    with database.read() as session:
        tail = compaction.read(session, Loose(job.id, 1))
    do(compaction.write, compaction.merge(tail))
    with pytest.raises(compaction.Outdated):
        do(compaction.write, compaction.merge(tail))


def test_who_deletes_a_job_amid_its_merging_waits_and_succeeds(
    database, do, told, until_blocked, monkeypatch
):
    with database.read() as session:
        merged = compaction.merge(compaction.read(session, Loose(told.id, 1)))
    deletion = threading.Thread(target=do, args=(jobs.remove, told.id))
    write_down = compaction.write_down

    def amid(*args):
        if not deletion.is_alive():
            deletion.start()
            until_blocked(deletion)
        write_down(*args)

    monkeypatch.setattr(compaction, "write_down", amid)
    do(compaction.write, merged)
    join(deletion)
    assert rows(database, Job, *ALL) == [0, 0, 0, 0]


def test_a_job_that_is_deleted_meanwhile_stays_deleted(database, do, told):
    with database.read() as session:
        tail = compaction.read(session, Loose(told.id, 1))
    do(lambda session: session.execute(delete(Job)))
    with pytest.raises(compaction.Outdated):
        do(compaction.write, compaction.merge(tail))
    assert rows(database, *ALL) == [0, 0, 0]


def test_of_a_running_attempt_few_blocks_are_left_alone(database, do, make_job, make_block):
    job = make_job(State.RUNNING)
    compactor = Compactor(database)
    do(ingest.append, job.id, 1, [make_block(i, 1) for i in range(ENOUGH - 1)], told=0)
    assert not compactor.compact()
    do(ingest.append, job.id, 1, [make_block(ENOUGH - 1, 1)], told=ENOUGH - 1)
    assert compactor.compact()
    assert rows(database, StepBlockRow) == [1]
    do(ingest.append, job.id, 1, [make_block(ENOUGH, SEGMENT)], told=ENOUGH)
    assert compactor.compact()  # one block, but of many steps: it belongs to the same segment
    assert rows(database, StepBlockRow) == [1]
    assert not compactor.compact()
    assert len(seen(database, job.id)) == ENOUGH + SEGMENT


def test_what_a_former_attempt_has_left_is_merged(database, do, make_job, make_block):
    job = make_job(State.RUNNING)
    do(ingest.append, job.id, 1, [make_block(0, 5), make_block(5, 5)], told=0)
    assert not Compactor(database).compact()
    do(attempts.hand_back, job.id, 1)
    do(attempts.claim, job.id, "other")
    assert Compactor(database).compact()
    assert rows(database, StepBlockRow) == [1]


def test_steps_that_cannot_be_read_do_not_stop_the_others(database, do, told, make_job, make_block):
    other = make_job(State.RUNNING)
    do(ingest.append, other.id, 1, [make_block(0, 5), make_block(5, 5)], told=0)
    do(attempts.mark_succeeded, other.id, 1, {})

    def spoil(session):
        row = session.get(StepBlockRow, (told.id, 1, 0))
        row.payload = b"no block"

    do(spoil)
    compactor = Compactor(database)
    assert compactor.compact()
    assert compactor.merged == 1
    assert not compactor.compact()
    assert len(seen(database, other.id)) == 10
