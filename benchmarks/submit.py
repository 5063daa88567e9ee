"""Submitted jobs per second with one API process, on SQLite and on PostgreSQL: one JSON line.

Each request is answered after its commit. The databases alternate; no worker runs.
"""

import argparse
from contextlib import ExitStack

from compare import report
from under_load.http_connection import Connection
from under_load.load import Round, send_requests, summary
from under_load.service_processes import DATABASES, Api, api, service_environment

CONNECTIONS = 8
ROUNDS = 7
ROUND_S = 3.0
SPEC = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}


def submit(connection: Connection) -> None:
    """Submit one job."""
    connection.request("POST", "/api/v1/jobs", SPEC)


def measure(server: Api, lasting_s: float) -> Round:
    """A round on connections of its own."""
    connections = [server.connection() for _ in range(CONNECTIONS)]
    try:
        return send_requests(connections, submit, lasting_s, server.pid)
    finally:
        for connection in connections:
            connection.close()


def main() -> None:
    """Measure in turns and print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with ExitStack() as stack:
        servers = {
            kind: stack.enter_context(api(stack.enter_context(service_environment(kind))))
            for kind in DATABASES
        }
        for server in servers.values():
            measure(server, 1.0)  # the first requests import and compile what later ones use
        rounds: dict[str, list[Round]] = {kind: [] for kind in servers}
        for _ in range(ROUNDS):
            for kind, server in servers.items():
                rounds[kind].append(measure(server, ROUND_S))
    report(
        "submit",
        goal_per_s=300,
        connections=CONNECTIONS,
        **{kind: summary(of) for kind, of in rounds.items()},
    )


if __name__ == "__main__":
    main()
