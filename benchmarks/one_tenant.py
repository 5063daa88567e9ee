"""What one client can do to all others. Prints one JSON line; times are in seconds.

On PostgreSQL, with a lock on the table of jobs for LOCK_S, as a migration takes one:

- 14 clients request lists and leave; how long a health check and a sign-in take from then on, and
  how many queries of these lists still run after the lists were left;
- how long a list, a job and a submission take whose client waits.

And, with 20,000 jobs, how long lists take while 40 clients scrape the metrics, and while two
clients estimate searches of 1,000 runs; and how long one such estimate takes.
"""

import argparse
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
from compare import report
from job_lists import fill
from sqlalchemy import text
from under_load.service_processes import Api, ServiceEnvironment, api, service_environment

LOCK_S = 40.0
ABANDONED = 14
SCRAPERS = 40
SCRAPED_S = 10.0
JOBS = 20_000
SETTLE_S = 2.0
"""From the moment in which the clients leave until the others ask."""
ESTIMATES = 2
ESTIMATE = "/api/v1/studies/estimate"
SPEC = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}
SEARCH = {
    "kind": "search",
    "spec": SPEC,
    "options": {
        "space": {
            "optimizer.learning_rate": {"log_uniform": [1e-5, 0.1]},
            "train.seed": {"int_uniform": [0, 1_000_000]},
        },
        "method": "random",
        "runs": 1000,
    },
}


@contextmanager
def locked_jobs(service: ServiceEnvironment) -> Iterator[None]:
    """Lock the table for at most LOCK_S."""
    connection = service.database.engine.connect()
    connection.execute(text("SET idle_in_transaction_session_timeout = 0"))
    connection.execute(text("LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE"))
    release = threading.Timer(LOCK_S, connection.close)
    release.start()
    try:
        yield
    finally:
        release.cancel()
        connection.close()


def waiting_queries(service: ServiceEnvironment) -> int:
    """How many queries wait for a lock."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with service.database.engine.connect() as connection:
        return int(connection.execute(text(waiting)).scalar_one())


def leave_lists(server: Api) -> None:
    """Request lists on connections that are closed before the response."""
    address = urlsplit(server.url)
    head = f"GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\n\r\n"
    connections = []
    for _ in range(ABANDONED):
        connections.append(socket.create_connection((address.hostname, address.port)))
        connections[-1].sendall(head.encode())
    time.sleep(0.5)
    for connection in connections:
        connection.close()


def timed(ask: Callable[[], httpx.Response]) -> dict[str, Any]:
    """The status and the duration of a request."""
    begin = time.perf_counter()
    response = ask()
    taken = {"s": round(time.perf_counter() - begin, 3), "status": response.status_code}
    if wait := response.headers.get("retry-after"):
        taken["retry_after"] = wait
    return taken


def client_of(server: Api) -> httpx.Client:
    """A client that waits longer than the lock lasts."""
    headers = {"Authorization": f"Bearer {server.token}"}
    return httpx.Client(base_url=server.url, headers=headers, timeout=3 * LOCK_S, trust_env=False)


def abandoned_lists(service: ServiceEnvironment, server: Api) -> dict[str, Any]:
    """What others see while lists that clients gave up on wait for a lock."""
    asked = {
        "health": lambda client: client.get("/readyz"),
        "sign_in": lambda client: client.post("/api/v1/session", json={"token": server.token}),
    }
    taken: dict[str, Any] = {}
    for name, ask in asked.items():
        with locked_jobs(service), client_of(server) as client:
            time.sleep(SETTLE_S)
            of_server = waiting_queries(service)  # its background threads wait, too
            leave_lists(server)
            time.sleep(SETTLE_S)
            taken["queries_left"] = waiting_queries(service) - of_server
            taken[name] = timed(lambda: ask(client))  # noqa: B023 - called at once
    return taken


def while_locked(service: ServiceEnvironment, server: Api) -> dict[str, Any]:
    """How long requests that need the table take."""
    asked = {
        "list": lambda client: client.get("/api/v1/jobs"),
        "job": lambda client: client.get("/api/v1/jobs/0123456789ab"),
        "submission": lambda client: client.post("/api/v1/jobs", json=SPEC),
    }
    taken = {}
    for name, ask in asked.items():
        with locked_jobs(service), client_of(server) as client:
            taken[name] = timed(lambda: ask(client))  # noqa: B023 - called at once
    return taken


def lists_while(server: Api, clients: int, ask: Callable[[httpx.Client], Any]) -> dict[str, float]:
    """The median latency of lists, alone and while other clients ask without a pause."""
    stop = threading.Event()
    asked = []

    def ask_again() -> None:
        with client_of(server) as client:
            while not stop.is_set():
                ask(client)
                asked.append(1)

    with client_of(server) as client:

        def lists() -> float:
            until, taken = time.perf_counter() + SCRAPED_S, []
            while (begin := time.perf_counter()) < until:
                client.get("/api/v1/jobs?limit=50")
                taken.append(time.perf_counter() - begin)
            return round(statistics.median(taken), 4)

        alone = lists()
        threads = [threading.Thread(target=ask_again) for _ in range(clients)]
        for thread in threads:
            thread.start()
        beside = lists()
        stop.set()
        for thread in threads:
            thread.join()
    return {"alone": alone, "beside": beside, "asked": len(asked)}


def estimate(server: Api) -> httpx.Response:
    """Estimate a search of 1,000 runs."""
    with client_of(server) as client:
        return client.post(ESTIMATE, json=SEARCH)


def main() -> None:
    """Measure and print the result."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with service_environment("postgresql") as service:
        fill(service, JOBS)
        with api(service) as server:
            results = {
                "abandoned_lists": abandoned_lists(service, server),
                "while_locked": while_locked(service, server),
                "scraped": lists_while(server, SCRAPERS, lambda client: client.get("/metrics")),
                "estimated": lists_while(
                    server, ESTIMATES, lambda client: client.post(ESTIMATE, json=SEARCH)
                ),
                "estimate": timed(lambda: estimate(server)),
            }
    report("one_tenant", lock_s=LOCK_S, **results)


if __name__ == "__main__":
    main()
