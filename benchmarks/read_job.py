"""Reads of a job per second by one API process, on SQLite and on PostgreSQL: one JSON line.

A running job, as clients poll it; a queued job, which includes the reason why it waits; and an
unchanged job with an ETag (304). For comparison the health route, which needs no database: the
cost of any response of one Python process on this machine.
"""

import argparse
import json
from collections.abc import Callable
from contextlib import ExitStack

from compare import report
from under_load.http_connection import Connection
from under_load.load import Round, send_requests, summary
from under_load.service_processes import (
    DATABASES,
    Api,
    ServiceEnvironment,
    api,
    service_environment,
)

from ampspec.jobs import JobSpec
from store.jobs import attempts, jobs

CONNECTIONS = 8
ROUNDS = 7
ROUND_S = 2.0
SPEC = JobSpec.parse({"model": {"kind": "mlp"}, "data": {"kind": "digits"}})

Read = Callable[[Connection], object]


def running_job(service: ServiceEnvironment) -> str:
    """A job that is running according to the database."""
    with service.database.write() as session:
        job_id = jobs.create(session, SPEC, jobs.Origin("default")).id
        job = attempts.claim(session, job_id, "benchmark", lease_s=3600)
        assert job is not None
        attempts.mark_running(session, job_id, job.attempt, total_steps=1000, first_step=0)
    return job_id


def queued_job(service: ServiceEnvironment) -> str:
    """A job that waits for a worker."""
    with service.database.write() as session:
        return jobs.create(session, SPEC, jobs.Origin("default")).id


def reads(service: ServiceEnvironment, server: Api) -> dict[str, Read]:
    """The requests that are compared."""
    running, queued = running_job(service), queued_job(service)
    unchanged = f"If-None-Match: {etag(server, running)}\r\n"
    return {
        "running": lambda one: one.request("GET", f"/api/v1/jobs/{running}"),
        "queued": lambda one: one.request("GET", f"/api/v1/jobs/{queued}"),
        "health": lambda one: one.request("GET", "/healthz"),
        "unchanged": lambda one: one.request("GET", f"/api/v1/jobs/{running}", headers=unchanged),
    }


def etag(server: Api, job_id: str) -> str:
    """The ETag of the current state of the job."""
    import httpx

    headers = {"Authorization": f"Bearer {server.token}"}
    answer = httpx.get(f"{server.url}/api/v1/jobs/{job_id}", headers=headers, trust_env=False)
    assert json.loads(answer.content)["id"] == job_id
    return answer.headers["ETag"]


def measure(server: Api, read: Read, lasting_s: float) -> Round:
    """Measure one round on new connections."""
    connections = [server.connection() for _ in range(CONNECTIONS)]
    try:
        return send_requests(connections, read, lasting_s, server.pid)
    finally:
        for connection in connections:
            connection.close()


def main() -> None:
    """Measure in alternation and print the result."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with ExitStack() as stack:
        candidates: dict[str, tuple[Api, Read]] = {}
        for kind in DATABASES:
            service = stack.enter_context(service_environment(kind))
            server = stack.enter_context(api(service))
            for name, read in reads(service, server).items():
                candidates[f"{kind}-{name}"] = (server, read)
                measure(server, read, 0.5)  # warm-up: the first requests fill caches
        rounds: dict[str, list[Round]] = {name: [] for name in candidates}
        for _ in range(ROUNDS):
            for name, (server, read) in candidates.items():
                rounds[name].append(measure(server, read, ROUND_S))
    report(
        "read_job",
        goal_per_s=1500,
        connections=CONNECTIONS,
        **{name: summary(of) for name, of in rounds.items()},
    )


if __name__ == "__main__":
    main()
