"""Compaction of step blocks: interrupted, concurrent, and with nothing to merge."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sqlalchemy import delete, select

from ampspec.jobs import State
from server.background.compactor import Compactor
from store.jobs import attempts, jobs
from store.tables import Job, StepBlockRow, StepLevel, StepPoints
from store.telemetry import compaction, compaction_queue, ingest, steps
from store.telemetry.compaction_queue import MIN_BLOCKS, SEGMENT_STEPS, UncompactedAttempt
from tests.databases import ON_SQLITE
from tests.waiting import join

CHILD = Path(__file__).with_name("killed_compactor.py")


@pytest.fixture
def trained_job(in_transaction, make_job, make_block):
    """A job that has ended, of 40 blocks of 10 steps each."""
    job = make_job(State.RUNNING)
    blocks = [make_block(first, 10, skipped=first == 50) for first in range(0, 400, 10)]
    in_transaction(ingest.append, job.id, 1, blocks, entries_written=0)
    in_transaction(attempts.mark_succeeded, job.id, 1, {})
    return job


def visible_steps(database, job_id):
    with database.read() as session:
        return steps.read(session, job_id, start=0, end=None, limit=10**6).block


def row_counts(database, *tables):
    with database.read() as session:
        return [len(session.scalars(select(table)).all()) for table in tables]


STEP_TABLES = (StepBlockRow, StepLevel, StepPoints)


@pytest.fixture
def compact(database_url):
    """Compact in a process that is killed at a given statement; returns its exit code."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, CHILD, database_url], **pipes) as process:

        def run(at):
            process.stdin.write(f"{at}\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        yield run
        process.stdin.close()


@ON_SQLITE  # it tests that the statements are one transaction
def test_compaction_killed_at_any_statement_changes_nothing(database, compact, trained_job):
    stored_steps = visible_steps(database, trained_job.id)
    assert len(stored_steps) == 400
    at, killed = 0, True
    while killed:
        outcome = compact(at)
        killed = outcome == -signal.SIGKILL
        assert killed or outcome == 0
        assert visible_steps(database, trained_job.id) == stored_steps
        assert row_counts(database, *STEP_TABLES) == ([40, 0, 0] if killed else [1, 2, 1])
        at += 3  # every third statement, since a run takes a third of a second
    assert at > 9


def test_the_second_of_two_concurrent_merges_changes_nothing(database, in_transaction, trained_job):
    with database.read() as session:
        [uncompacted] = compaction_queue.uncompacted_attempts(session, 10)
        tail = compaction.read_uncompacted(session, uncompacted)
    stored_steps = visible_steps(database, trained_job.id)
    in_transaction(compaction.write_merged, compaction.merge_steps(tail))
    first = row_counts(database, *STEP_TABLES)
    with pytest.raises(compaction.StaleRead):
        in_transaction(compaction.write_merged, compaction.merge_steps(tail))
    assert row_counts(database, *STEP_TABLES) == first == [1, 2, 1]
    assert visible_steps(database, trained_job.id) == stored_steps


def test_a_full_block_is_merged_once(database, in_transaction, make_job, make_block):
    job = make_job(State.RUNNING)
    in_transaction(ingest.append, job.id, 1, [make_block(0, SEGMENT_STEPS)], entries_written=0)
    with database.read() as session:
        tail = compaction.read_uncompacted(session, UncompactedAttempt(job.id, 1))
    in_transaction(compaction.write_merged, compaction.merge_steps(tail))
    with pytest.raises(compaction.StaleRead):
        in_transaction(compaction.write_merged, compaction.merge_steps(tail))


def test_deleting_a_job_during_its_merge_waits_and_succeeds(
    database, in_transaction, trained_job, until_blocked, monkeypatch
):
    with database.read() as session:
        merged = compaction.merge_steps(
            compaction.read_uncompacted(session, UncompactedAttempt(trained_job.id, 1))
        )
    deletion = threading.Thread(target=in_transaction, args=(jobs.delete_job, trained_job.id))
    insert_rows = compaction.insert_rows

    def insert_during_deletion(*args):
        if not deletion.is_alive():
            deletion.start()
            until_blocked(deletion)
        insert_rows(*args)

    monkeypatch.setattr(compaction, "insert_rows", insert_during_deletion)
    in_transaction(compaction.write_merged, merged)
    join(deletion)
    assert row_counts(database, Job, *STEP_TABLES) == [0, 0, 0, 0]


def test_merging_a_job_that_was_deleted_meanwhile_writes_nothing(
    database, in_transaction, trained_job
):
    with database.read() as session:
        tail = compaction.read_uncompacted(session, UncompactedAttempt(trained_job.id, 1))
    in_transaction(lambda session: session.execute(delete(Job)))
    with pytest.raises(compaction.StaleRead):
        in_transaction(compaction.write_merged, compaction.merge_steps(tail))
    assert row_counts(database, *STEP_TABLES) == [0, 0, 0]


def test_few_blocks_of_a_running_attempt_are_not_merged(
    database, in_transaction, make_job, make_block
):
    job = make_job(State.RUNNING)
    compactor = Compactor(database)
    in_transaction(
        ingest.append,
        job.id,
        1,
        [make_block(i, 1) for i in range(MIN_BLOCKS - 1)],
        entries_written=0,
    )
    assert not compactor.compact()
    in_transaction(
        ingest.append, job.id, 1, [make_block(MIN_BLOCKS - 1, 1)], entries_written=MIN_BLOCKS - 1
    )
    assert compactor.compact()
    assert row_counts(database, StepBlockRow) == [1]
    in_transaction(
        ingest.append,
        job.id,
        1,
        [make_block(MIN_BLOCKS, SEGMENT_STEPS)],
        entries_written=MIN_BLOCKS,
    )
    assert compactor.compact()  # one block, but of many steps: it belongs to the same segment
    assert row_counts(database, StepBlockRow) == [1]
    assert not compactor.compact()
    assert len(visible_steps(database, job.id)) == MIN_BLOCKS + SEGMENT_STEPS


def test_the_blocks_of_a_superseded_attempt_are_merged(
    database, in_transaction, make_job, make_block
):
    job = make_job(State.RUNNING)
    in_transaction(
        ingest.append, job.id, 1, [make_block(0, 5), make_block(5, 5)], entries_written=0
    )
    assert not Compactor(database).compact()
    in_transaction(attempts.requeue, job.id, 1)
    in_transaction(attempts.claim, job.id, "other")
    assert Compactor(database).compact()
    assert row_counts(database, StepBlockRow) == [1]


def test_an_unreadable_block_does_not_stop_the_compaction_of_other_jobs(
    database, in_transaction, trained_job, make_job, make_block
):
    other_job = make_job(State.RUNNING)
    in_transaction(
        ingest.append, other_job.id, 1, [make_block(0, 5), make_block(5, 5)], entries_written=0
    )
    in_transaction(attempts.mark_succeeded, other_job.id, 1, {})

    def damage(session):
        row = session.get(StepBlockRow, (trained_job.id, 1, 0))
        row.payload = b"no block"

    in_transaction(damage)
    compactor = Compactor(database)
    assert compactor.compact()
    assert compactor.merged == 1
    assert not compactor.compact()
    assert len(visible_steps(database, other_job.id)) == 10
