"""The latency of lists of jobs, with 1,000 and with 100,000 jobs. Prints one JSON line.

Nine of ten jobs have metrics. Pages of 50 jobs through HTTP, in alternation, on SQLite and on
PostgreSQL: the newest jobs, the best ones by a metric, the same by a metric that no job has, and
lists that are filtered by a metric, for a condition that few jobs meet and for one that most meet.
"""

import argparse
import itertools
import secrets
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

from compare import report
from sqlalchemy import insert, text
from under_load.http_connection import Connection
from under_load.load import latency_ms
from under_load.service_processes import DATABASES, ServiceEnvironment, api, service_environment

from ampspec.jobs import JobSpec, State
from store.tables import Job, JobMetric

COUNTS = (1_000, 100_000)
ROUNDS = 30
ROWS_PER_INSERT = 1_000
LISTS = {
    "newest": "limit=50",
    "best": "limit=50&sort=-val_accuracy",
    "by_unknown_metric": "limit=50&sort=-val_mae",
    "newest_of_few": "limit=50&metric=val_accuracy%3E0.9999",
    "newest_of_most": "limit=50&metric=val_accuracy%3E0.1",
    "best_of_few": "limit=50&sort=val_loss&metric=val_accuracy%3E0.9999",
}
"""The query of each list; accuracies are from 0 to 1, losses 1 minus the accuracy."""
SPEC = JobSpec.parse({"model": {"kind": "mlp"}, "data": {"kind": "digits"}})


def fill(service: ServiceEnvironment, count: int) -> None:
    """Insert finished jobs; every tenth has no metrics."""
    began = datetime.now(UTC) - timedelta(days=30)
    facts = {"project": "default", "name": SPEC.name, "policy": "float32", "model": "mlp"}
    facts |= {"labels": {}, "spec": SPEC.to_json(), "queue": "default"}
    for first in range(0, count, ROWS_PER_INSERT):
        rows: list[dict[str, Any]] = []
        metrics: list[dict[str, Any]] = []
        for number in range(first, min(first + ROWS_PER_INSERT, count)):
            job_id = secrets.token_hex(6)
            created_at = began + timedelta(seconds=number)
            times = {"created_at": created_at, "updated_at": created_at}
            accuracy = (number * 7919 % count) / count
            shown = {"val_loss": 1 - accuracy, "val_accuracy": accuracy} if number % 10 else {}
            rows.append({**facts, **times, "id": job_id, "metrics": shown or None})
            rows[-1]["state"] = State.SUCCEEDED
            metrics += [
                {"job_id": job_id, "name": name, "value": value, "updated_at": created_at}
                for name, value in shown.items()
            ]
        with service.database.write() as session:
            session.connection().execute(insert(Job), rows)
            session.connection().execute(insert(JobMetric), metrics)
    with service.database.write() as session:
        session.execute(text("ANALYZE"))  # PostgreSQL does so by itself within a minute


def timed(connection: Connection, query: str) -> float:
    """The duration of a request in seconds."""
    begin = time.perf_counter()
    connection.request("GET", f"/api/v1/jobs?{query}")
    return time.perf_counter() - begin


def measure(kind: str) -> dict[str, dict[str, dict[str, float]]]:
    """Measure each list with each number of jobs, in alternation."""
    with ExitStack() as stack:
        services = {count: stack.enter_context(service_environment(kind)) for count in COUNTS}
        for count, service in services.items():
            fill(service, count)
        servers = {count: stack.enter_context(api(one)) for count, one in services.items()}
        # After the slow work: a server closes idle connections.
        connections = {count: server.connection() for count, server in servers.items()}
        for connection in connections.values():
            stack.callback(connection.close)
        found: dict[str, dict[str, dict[str, float]]] = {}
        for name, query in LISTS.items():
            taken: dict[int, list[float]] = {count: [] for count in COUNTS}
            for _, (count, connection) in itertools.product(range(ROUNDS), connections.items()):
                taken[count].append(timed(connection, query))
            found[name] = {str(count): latency_ms(these) for count, these in taken.items()}
        return found


def main() -> None:
    """Measure and print the result."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    report("job_lists", rounds=ROUNDS, **{kind: measure(kind) for kind in DATABASES})


if __name__ == "__main__":
    main()
