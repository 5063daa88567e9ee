"""Ten thousand jobs wait: listing, claiming and cancelling stay fast."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import event, text

from store import attempts, lost
from tests.chaos.cluster import Cluster
from tests.chaos.runs import TINY

pytestmark = pytest.mark.xdist_group("chaos-2")

CROWD = 10_000
QUEUE = "nobody"
"""No worker serves it."""
SPEC = {**TINY, "runtime": {"queue": QUEUE}}
TIMES = 15
SLACK_S = 0.03

CLONE = """
INSERT INTO jobs ({columns}) SELECT {values} FROM jobs, generate_series(1, :crowd) AS number
WHERE jobs.id = :id
"""


@pytest.fixture
def crowded(cluster: Cluster) -> Iterator[Cluster]:
    cluster.crew(0)
    yield cluster
    with cluster.database.write() as session:
        session.execute(text("DELETE FROM jobs WHERE queue = :queue"), {"queue": QUEUE})


def test_ten_thousand_waiting_jobs_slow_nothing_down(crowded: Cluster) -> None:
    """The guard: an index in the order in which waiting jobs are taken.

    Checked: without ix_jobs_in_turn a claim reads the whole table.
    """
    before = measured(crowded)
    crowd(crowded)
    after = measured(crowded)
    # By how much it may take longer: a plan that reads every row takes a hundred times as long.
    slow = {
        name: (before[name], after[name])
        for name in after
        if after[name] > 3 * before[name] + SLACK_S
    }
    assert not slow
    assert statements(crowded)
    for statement, parameters in statements(crowded):
        with crowded.database.read() as session:
            lines = session.connection().exec_driver_sql(f"EXPLAIN {statement}", parameters)
            assert "Seq Scan on jobs" not in "\n".join(lines.scalars()), statement


def measured(cluster: Cluster) -> dict[str, float]:
    """What each action takes at least, in seconds, on jobs of its own."""
    http = cluster.apis[0].http
    submitted = iter([cluster.client.jobs.submit(SPEC) for _ in range(TIMES)])

    def claim() -> None:
        with cluster.database.write() as session:
            job = attempts.claim_next(session, "claimer", [QUEUE])
            assert job is not None
            attempts.hand_back(session, job.id, job.attempt)

    return {
        "list": timed(lambda: http.get("/api/v1/jobs", params={"limit": 100}).raise_for_status()),
        "list queued": timed(
            lambda: http.get("/api/v1/jobs", params={"state": "queued"}).raise_for_status()
        ),
        "claim": timed(claim),
        "cancel": timed(lambda: next(submitted).cancel()),
    }


def timed(action: Callable[[], Any]) -> float:
    took = []
    for _ in range(TIMES):
        begin = time.perf_counter()
        action()
        took.append(time.perf_counter() - begin)
    return min(took)  # what else the machine does only adds to it


def crowd(cluster: Cluster) -> None:
    """Ten thousand copies of one waiting job, each with an id of its own."""
    model = cluster.client.jobs.submit(SPEC)
    with cluster.database.write() as session:
        names = session.scalars(
            text("SELECT column_name FROM information_schema.columns WHERE table_name = 'jobs'")
        ).all()
        own = {"id": "md5(number::text)", "created_at": "created_at + number * interval '1 ms'"}
        columns = ", ".join(names)
        values = ", ".join(own.get(name, f"jobs.{name}") for name in names)
        session.execute(
            text(CLONE.format(columns=columns, values=values)), {"crowd": CROWD, "id": model.id}
        )
        session.execute(text("ANALYZE jobs"))


def statements(cluster: Cluster) -> list[tuple[str, Any]]:
    """What it takes to find the next job, and the jobs of lost workers."""
    asked: list[tuple[str, Any]] = []

    def listen(_c: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if "jobs" in statement:
            asked.append((statement, parameters))

    event.listen(cluster.database.engine, "before_cursor_execute", listen)
    try:
        with cluster.database.write() as session:
            job = attempts.claim_next(session, "claimer", [QUEUE])
            assert job is not None
            attempts.hand_back(session, job.id, job.attempt)
            lost.expire(session)
    finally:
        event.remove(cluster.database.engine, "before_cursor_execute", listen)
    return asked
