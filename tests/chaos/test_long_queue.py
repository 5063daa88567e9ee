"""Ten thousand queued jobs: listing, claiming and cancelling do not read them all."""

import json
import re
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import event, text

from server.background.reconciler import Reconciler
from store.jobs import attempts, lease_expiry
from tests.chaos import xdist_groups
from tests.chaos.reference_run import TINY

pytestmark = [xdist_groups.SCRIPTED, pytest.mark.quick]

QUEUED_JOBS = 10_000
SPEC = {**TINY, "runtime": {"queue": "nobody"}}
"""No worker serves this queue, and no worker runs."""
MAX_COST_SHARE = 0.1
"""A statement's largest cost, as a share of the cost of reading every job (PostgreSQL's plan)."""

CLONE = """
INSERT INTO jobs ({columns}) SELECT {values} FROM jobs, generate_series(1, :copies) AS number
WHERE jobs.id = :id
"""

Statements = list[tuple[str, Any]]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_no_statement_reads_all_of_ten_thousand_queued_jobs(api: Any) -> None:
    """Mechanism: an index in the order in which queued jobs are claimed.

    Checked: without ix_jobs_turn a claim reads the whole table.
    """
    submitted = submit(api)
    queue_copies(api, submit(api))
    every_job = cost(api, "SELECT * FROM jobs", {})
    for name, action in actions(api, submitted).items():
        statements = statements_during(api, action)
        assert statements, name
        for statement, parameters in statements:
            assert cost(api, statement, parameters) < MAX_COST_SHARE * every_job, (name, statement)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_no_statement_of_a_round_of_the_reconciler_scans_a_long_queue(api: Any) -> None:
    """Mechanism: conditions that PostgreSQL serves by an index, whatever the share of queued jobs.

    Checked: with EXISTS in place of the first row of each range of the index, the table is scanned.
    """
    queue_copies(api, submit(api))
    with api.database.write() as session:
        session.execute(text("UPDATE jobs SET dispatched_at = now() - interval '1 hour'"))
    with api.database.autocommit() as connection:
        connection.execute(text("VACUUM ANALYZE jobs"))
    reconciler = Reconciler(api.database, BusyQueue())

    def run_round() -> None:
        reconciler.expire()
        reconciler.fill_turns()
        reconciler.place_gangs()
        reconciler.redispatch()

    statements = statements_during(api, run_round)
    assert len(statements) == 4
    for statement, parameters in statements:
        for plan in plans(api, statement, parameters):
            assert "Seq Scan on jobs" not in plan, plan


class BusyQueue:
    """A message queue whose workers are busy."""

    def pending_messages(self, _queue: str) -> int:
        """One message waits."""
        return 1

    def send(self, job_id: str, queue: str) -> None:
        """Nothing is sent to a queue that has messages."""
        raise AssertionError((job_id, queue))

    def close(self) -> None:
        """Nothing is open."""


def plans(api: Any, statement: str, parameters: dict[str, Any]) -> list[str]:
    """The plan for these parameters, and the one that PostgreSQL may choose for any parameters."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", statement)))
    numbered = re.sub(r"%\((\w+)\)s", lambda match: f"${names.index(match[1]) + 1}", statement)
    values = [parameters[name] for name in names]
    arguments = f"({', '.join('%s' for _ in names)})" if names else ""
    with api.database.engine.connect() as pooled:
        cursor = psycopg.ClientCursor(pooled.connection.driver_connection)
        cursor.execute(f"PREPARE checked AS {numbered}")
        texts = []
        for mode in ("force_custom_plan", "force_generic_plan"):
            cursor.execute(f"SET LOCAL plan_cache_mode = {mode}")
            cursor.execute(f"EXPLAIN EXECUTE checked{arguments}", values)
            texts.append("\n".join(row[0] for row in cursor.fetchall()))
        cursor.execute("DEALLOCATE checked")
        return texts


def actions(api: Any, job_id: str) -> dict[str, Callable[[], Any]]:
    """The requests and transactions that are checked."""

    def claim() -> None:
        with api.database.write() as session:
            job = attempts.claim_next(session, "claimer", ["nobody"])
            assert job is not None
            attempts.requeue(session, job.id, job.attempt)

    def expire() -> None:
        with api.database.write() as session:
            lease_expiry.expire(session)

    def get(**parameters: Any) -> Callable[[], Any]:
        return lambda: api.client.get("/api/v1/jobs", params=parameters).raise_for_status()

    return {
        "list": get(limit=100),
        "list queued": get(state="queued"),
        "claim": claim,
        "lost workers": expire,
        "cancel": lambda: api.client.post(f"/api/v1/jobs/{job_id}/cancel").raise_for_status(),
    }


def submit(api: Any) -> str:
    """The id of a new job."""
    return str(api.client.post("/api/v1/jobs", json=SPEC).raise_for_status().json()["id"])


def queue_copies(api: Any, job_id: str) -> None:
    """Insert ten thousand copies of one queued job, each with its own id."""
    with api.database.write() as session:
        names = session.scalars(
            text("SELECT column_name FROM information_schema.columns WHERE table_name = 'jobs'")
        ).all()
        own = {"id": "md5(number::text)", "created_at": "created_at + number * interval '1 ms'"}
        own["turn_at"] = "turn_at + number * interval '1 ms'"
        columns = ", ".join(names)
        values = ", ".join(own.get(name, f"jobs.{name}") for name in names)
        session.execute(
            text(CLONE.format(columns=columns, values=values)),
            {"copies": QUEUED_JOBS, "id": job_id},
        )
        session.execute(text("ANALYZE jobs, projects"))


def statements_during(api: Any, action: Callable[[], Any]) -> Statements:
    """The statements about the table of jobs, here and in the server, during an action."""
    statements: Statements = []

    def listen(_c: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if "jobs" in statement:
            statements.append((statement, parameters))

    engines = (api.database.engine, api.app.state.services.database.engine)
    for engine in engines:
        event.listen(engine, "before_cursor_execute", listen)
    try:
        action()
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", listen)
    return statements


def cost(api: Any, statement: str, parameters: Any) -> float:
    """PostgreSQL's estimated total cost of a statement."""
    with api.database.read() as session:
        connection = session.connection()
        plan = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", parameters)
        [found] = plan.scalars()
    found = json.loads(found) if isinstance(found, str) else found
    return float(found[0]["Plan"]["Total Cost"])
