"""Reading the allocations of batch systems."""

import pytest
from sqlalchemy import event, text

from store import metrics_queries
from store.tables import Allocation


@pytest.fixture
def plan_of(database):
    """How the database executes what a function of the store reads, on a table with few rows."""

    def plan_of(function):
        explain = "EXPLAIN QUERY PLAN" if database.engine.dialect.name == "sqlite" else "EXPLAIN"
        statements = []

        def record(_connection, _cursor, statement, parameters, *_):
            statements.append((statement, parameters))

        with database.write() as session:
            event.listen(session.connection(), "before_cursor_execute", record)
            function(session)
            if explain == "EXPLAIN":  # the table is too small for an index otherwise
                session.execute(text("SET LOCAL enable_seqscan = off"))
            [(statement, parameters), *_] = statements
            rows = session.connection().exec_driver_sql(f"{explain} {statement}", parameters)
            return str(rows.all())

    return plan_of


def test_the_counts_for_metrics_read_the_allocations_that_have_not_ended_alone(database, plan_of):
    with database.write() as session:
        fields = {"job_id": "a", "attempt": 1, "number": 1, "queue": "batch", "engine": "slurm"}
        session.add(Allocation(name="ampcore-a-1-1", **fields, state="PENDING"))
    assert "ix_allocations_unfinished" in plan_of(metrics_queries.unfinished_allocations)
