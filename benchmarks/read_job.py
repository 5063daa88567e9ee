"""How many times a second one API process tells of a job, on SQLite and on PostgreSQL.

One JSON line. A running job is what people poll; a queued one also says why it waits; with an ETag
an answer that has not changed is 304. Beside them the server's health, which asks nothing and says
next to nothing: what any answer of one Python process costs on the machine of the day.
"""

import json
from collections.abc import Callable
from contextlib import ExitStack

from contest import report
from under_load.load import Round, hammer, summary
from under_load.parts import DATABASES, Api, Surroundings, api, surroundings
from under_load.wire import Connection

from ampcore.spec import JobSpec
from store import attempts, jobs

CONNECTIONS = 8
ROUNDS = 7
ROUND_S = 2.0
SPEC = JobSpec.parse({"model": {"kind": "mlp"}, "data": {"kind": "digits"}})

Read = Callable[[Connection], object]


def running_job(around: Surroundings) -> str:
    """A job that a worker trains, as far as the database knows."""
    with around.database.write() as session:
        job_id = jobs.create(session, SPEC, jobs.Origin("default")).id
        job = attempts.claim(session, job_id, "benchmark", lease_s=3600)
        assert job is not None
        attempts.mark_running(session, job_id, job.attempt, total_steps=1000, first_step=0)
    return job_id


def queued_job(around: Surroundings) -> str:
    """A job that waits for a worker."""
    with around.database.write() as session:
        return jobs.create(session, SPEC, jobs.Origin("default")).id


def reads(around: Surroundings, server: Api) -> dict[str, Read]:
    """The requests that are compared."""
    running, queued = running_job(around), queued_job(around)
    unchanged = f"If-None-Match: {etag(server, running)}\r\n"
    return {
        "running": lambda one: one.request("GET", f"/api/v1/jobs/{running}"),
        "queued": lambda one: one.request("GET", f"/api/v1/jobs/{queued}"),
        "health": lambda one: one.request("GET", "/healthz"),
        "unchanged": lambda one: one.request("GET", f"/api/v1/jobs/{running}", headers=unchanged),
    }


def etag(server: Api, job_id: str) -> str:
    """What the server calls the present state of the job."""
    import httpx

    headers = {"Authorization": f"Bearer {server.token}"}
    answer = httpx.get(f"{server.url}/api/v1/jobs/{job_id}", headers=headers, trust_env=False)
    assert json.loads(answer.content)["id"] == job_id
    return answer.headers["ETag"]


def measure(server: Api, read: Read, lasting_s: float) -> Round:
    """A round on connections of its own."""
    connections = [server.connection() for _ in range(CONNECTIONS)]
    try:
        return hammer(connections, read, lasting_s, server.pid)
    finally:
        for connection in connections:
            connection.close()


def main() -> None:
    """Measure in turns and print."""
    with ExitStack() as stack:
        contestants: dict[str, tuple[Api, Read]] = {}
        for kind in DATABASES:
            around = stack.enter_context(surroundings(kind))
            server = stack.enter_context(api(around))
            for name, read in reads(around, server).items():
                contestants[f"{kind}-{name}"] = (server, read)
                measure(server, read, 0.5)  # the first requests compile what later ones use
        rounds: dict[str, list[Round]] = {name: [] for name in contestants}
        for _ in range(ROUNDS):
            for name, (server, read) in contestants.items():
                rounds[name].append(measure(server, read, ROUND_S))
    report(
        "read_job",
        goal_per_s=1500,
        connections=CONNECTIONS,
        **{name: summary(of) for name, of in rounds.items()},
    )


if __name__ == "__main__":
    main()
