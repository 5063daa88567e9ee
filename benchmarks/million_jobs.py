"""The service with a thousand and with a million jobs, in alternation. Prints one JSON line.

Each of two databases of one PostgreSQL is filled by SQL: jobs with their attempts, ten events,
metrics, artifacts and steps each, five audit entries for each job, a tenth of the jobs queued, a
worker for two thousand jobs. Then every list and filter, /metrics, and what reads all workers is
requested from an API process for each database; rounds of the background threads, heartbeats and
bulk changes run in this process. A million jobs need 14 GB of disk and ten minutes to fill.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from shutil import disk_usage
from tempfile import gettempdir
from typing import Any, Final

import sqlalchemy as sa
from compare import report
from million.fill import Sizes, fill
from million.requests import BULK, LISTS, OTHERS
from million.rounds import heartbeat, rounds
from under_load.http_connection import Connection
from under_load.service_processes import ServiceEnvironment, api, service_environment

from server.migrate import migrate
from store.access import tokens
from store.database import Database

ROUNDS: Final = 9
SLOW_S: Final = 5.0
"""A request that has taken so long in all is not repeated."""
BYTES_PER_JOB: Final = 14_000
BULK_JOBS: Final = 10_000


def timed(work: Callable[[], object]) -> float:
    """The duration of a call in seconds."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def interleaved(
    works: Mapping[str, Callable[[], object]], repeat: int = ROUNDS
) -> dict[str, float]:
    """The median duration of each work in milliseconds; they run in turns."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeat):
        for name, work in works.items():
            if sum(taken[name]) < SLOW_S:
                taken[name].append(timed(work))
    return {name: round(1000 * statistics.median(seconds), 1) for name, seconds in taken.items()}


def filled_service(stack: ExitStack, jobs: int) -> ServiceEnvironment:
    """A service of its own with that many jobs."""
    service = stack.enter_context(service_environment("postgresql"))
    print(f"filling {jobs:,} jobs", file=sys.stderr, flush=True)
    fill(service.database, Sizes.of(jobs))
    return service


def service_at(stack: ExitStack, service: ServiceEnvironment, url: str) -> ServiceEnvironment:
    """A service on a database that was filled before; it is migrated first."""
    migrate(url, report=lambda text: print(text, file=sys.stderr, flush=True))
    database = Database(url)
    stack.callback(database.close)
    with database.write() as session:
        token = tokens.create(session, "benchmark", role="admin")
    return ServiceEnvironment(service.folder, url, service.redis_url, token, database)


def bulk_s(connection: Connection) -> dict[str, float]:
    """Seconds to cancel, and then to delete, BULK_JOBS jobs by filter."""

    def change_all(path: str) -> None:
        for _ in range(BULK_JOBS // 1_000):
            connection.request("POST", path)

    return {name: round(timed(lambda: change_all(path)), 2) for name, path in BULK.items()}  # noqa: B023


def measure(services: Mapping[str, ServiceEnvironment]) -> dict[str, Any]:
    """Everything, for each service in turns."""
    results: dict[str, Any] = {}
    with ExitStack() as stack:
        servers = {name: stack.enter_context(api(one)) for name, one in services.items()}
        for row, (method, path, body) in {**LISTS, **OTHERS}.items():
            # A connection for each row: a server closes idle ones.
            connections = {name: server.connection() for name, server in servers.items()}
            requests = {
                name: lambda connection=connection: connection.request(method, path, body)  # noqa: B023
                for name, connection in connections.items()
            }
            results[row] = interleaved(requests)
            for connection in connections.values():
                connection.close()
        results["bulk_s"] = {name: bulk_s(server.connection()) for name, server in servers.items()}
    works = {name: rounds(one.database, one.redis_url) for name, one in services.items()}
    for row in next(iter(works.values())):
        results[row] = interleaved({name: one[row] for name, one in works.items()})
    results["heartbeat"] = {name: heartbeat(one.database) for name, one in services.items()}
    return results


def check_disk(jobs: int) -> None:
    """Exit if the temporary folder has no room."""
    folder = Path(gettempdir())
    free = disk_usage(folder).free
    if free < jobs * BYTES_PER_JOB:
        sys.exit(
            f"{folder}: {jobs:,} jobs need {jobs * BYTES_PER_JOB:,} bytes, {free:,} are free; "
            "choose another folder with TMPDIR, or fewer jobs with --jobs"
        )


def main() -> None:
    """Measure and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000, help="jobs of the large service")
    parser.add_argument("--small", type=int, default=1_000, help="jobs of the small service")
    parser.add_argument("--small-url", help="a database that was filled before, in its place")
    parser.add_argument("--large-url", help="the same for the large service")
    options = parser.parse_args()
    with ExitStack() as stack:
        small = filled_service(stack, options.small)
        if options.small_url:
            small = service_at(stack, small, options.small_url)
        if options.large_url:
            large = service_at(stack, small, options.large_url)
        else:
            check_disk(options.jobs)
            large = filled_service(stack, options.jobs)
        services = {"small": small, "large": large}
        counts = {name: _count(one.database) for name, one in services.items()}
        report("million_jobs", rounds=ROUNDS, jobs=counts, **measure(services))


def _count(database: Database) -> int:
    with database.read() as session:
        return session.scalar(sa.text("SELECT count(*) FROM jobs")) or 0


if __name__ == "__main__":
    main()
