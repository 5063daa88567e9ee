"""Allocations of batch systems: counted for metrics, and deleted with their jobs."""

import pytest
from sqlalchemy import event, select, text

from ampspec.jobs import State
from store import allocations, metrics_queries
from store.clock import from_now
from store.jobs import jobs
from store.listing import bulk_changes
from store.listing.search_filters import Search
from store.tables import Allocation


@pytest.fixture
def plan_of(database):
    """How the database executes what a function of the store reads, on a table with few rows."""

    def plan_of(function, part=""):
        explain = "EXPLAIN QUERY PLAN" if database.engine.dialect.name == "sqlite" else "EXPLAIN"
        statements = []

        def record(_connection, _cursor, statement, parameters, *_):
            if part in statement:
                statements.append((statement, parameters))

        with database.write() as session:
            event.listen(session.connection(), "before_cursor_execute", record)
            function(session)
            recorded = tuple(statements)
            if explain == "EXPLAIN":  # the table is too small for an index otherwise
                session.execute(text("SET LOCAL enable_seqscan = off"))
                session.execute(text("SET LOCAL enable_bitmapscan = off"))
                session.execute(text("SET LOCAL enable_sort = off"))
            plans = [
                session.connection().exec_driver_sql(f"{explain} {statement}", parameters).all()
                for statement, parameters in recorded
            ]
            return str(plans)

    return plan_of


def test_the_counts_for_metrics_read_the_allocations_that_have_not_ended_alone(database, plan_of):
    with database.write() as session:
        fields = {"job_id": "a", "attempt": 1, "number": 1, "queue": "batch", "engine": "slurm"}
        session.add(Allocation(name="ampcore-a-1-1", **fields, state="PENDING"))
    assert "ix_allocations_unfinished" in plan_of(metrics_queries.unfinished_allocations)


def test_a_round_reads_the_next_jobs_of_a_queue_and_the_allocations_of_these(
    database, make_job, plan_of
):
    for _ in range(30):
        make_job(runtime={"queue": "batch"})
    plans = plan_of(
        lambda session: allocations.jobs_without(session, "slurm", "batch", 10), part="LIMIT"
    )
    assert "ix_allocations_job_id" in plans
    for whole_table in ("SCAN allocations", "Seq Scan", "SCAN jobs"):
        assert whole_table not in plans, plans


@pytest.fixture
def job_with_allocations(database, make_job):
    """An ended job with an allocation that has ended, and one that Slurm still lists."""
    job = make_job(State.SUCCEEDED)
    with database.write() as session:
        for number in (1, 2):
            fields = {"job_id": job.id, "attempt": 1, "number": number, "queue": "batch"}
            ended_at = from_now(-5) if number == 1 else None
            name = f"ampcore-{job.id}-1-{number}"
            row = Allocation(name=name, **fields, engine="slurm", state="X", ended_at=ended_at)
            session.add(row)
    return job


@pytest.mark.parametrize("way", ["one", "bulk"])
def test_a_deleted_job_takes_its_ended_allocations_with_it(
    database, in_transaction, make_job, job_with_allocations, way
):
    """The scheduler still has to end the others in the batch system."""
    other_job = make_job(State.SUCCEEDED)
    with database.write() as session:
        fields = {"attempt": 1, "number": 1, "queue": "batch", "engine": "slurm", "state": "X"}
        row = Allocation(name="other", job_id=other_job.id, **fields, ended_at=from_now(-5))
        session.add(row)
    if way == "one":
        assert in_transaction(jobs.delete_job, job_with_allocations.id)
    else:
        search = Search(ids=(job_with_allocations.id,))
        assert in_transaction(bulk_changes.delete_matching, search, limit=10).jobs
    with database.read() as session:
        names = set(session.scalars(select(Allocation.name)))
    assert names == {"other", f"ampcore-{job_with_allocations.id}-1-2"}


def test_a_job_that_may_not_be_deleted_keeps_its_allocations(database, in_transaction, make_job):
    job = make_job(State.RUNNING)
    with database.write() as session:
        fields = {"attempt": 1, "number": 1, "queue": "batch", "engine": "slurm", "state": "X"}
        session.add(Allocation(name="ended", job_id=job.id, **fields, ended_at=from_now(-5)))
    assert not in_transaction(jobs.delete_job, job.id)
    with database.read() as session:
        assert [row.name for row in allocations.of_job(session, job.id)] == ["ended"]
