"""What traces cost a submission: off, sent to a collector, to one that is away: one JSON line.

Each request is answered after its commit. The servers have databases of their own and take turns;
no worker runs. Every request is recorded: the default sampler.
"""

import argparse
import statistics
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from compare import report
from under_load.http_connection import Connection
from under_load.load import Round, send_requests, summary
from under_load.service_processes import Api, api, process, service_environment, wait_until

CONNECTIONS = (1, 8)
ROUNDS = 9
ROUND_S = 1.5
SPEC = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}
AWAY = "http://127.0.0.1:9"
"""The port of `discard`, on which nothing listens."""
COLLECTOR = """
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Collector(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@contextmanager
def collector(stack: ExitStack) -> Iterator[str]:
    """A process that takes spans and forgets them; its address."""
    service = stack.enter_context(service_environment("sqlite"))
    log = service.folder / "collector.log"
    with process(["-c", COLLECTOR], service.environment(), log) as started:
        port = wait_until(lambda: log.read_text().strip(), started)
        yield f"http://127.0.0.1:{port}"


def submit(connection: Connection) -> None:
    """Submit one job."""
    connection.request("POST", "/api/v1/jobs", SPEC)


def measure(server: Api, lasting_s: float, count: int) -> Round:
    """A round on so many connections of its own."""
    connections = [server.connection() for _ in range(count)]
    try:
        return send_requests(connections, submit, lasting_s, server.pid)
    finally:
        for connection in connections:
            connection.close()


def main() -> None:
    """Measure in turns and print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with ExitStack() as stack:
        endpoint = stack.enter_context(collector(stack))
        endpoints = {"off": "", "on": endpoint, "collector_away": AWAY}
        servers = {
            name: stack.enter_context(
                api(
                    stack.enter_context(service_environment("sqlite")),
                    OTEL_EXPORTER_OTLP_ENDPOINT=address,
                )
            )
            for name, address in endpoints.items()
        }
        for server in servers.values():
            measure(server, 1.0, 1)  # the first requests import and compile what later ones use
        rounds: dict[int, dict[str, list[Round]]] = {
            count: {name: [] for name in servers} for count in CONNECTIONS
        }
        for _ in range(ROUNDS):
            for count in CONNECTIONS:
                for name, server in servers.items():
                    rounds[count][name].append(measure(server, ROUND_S, count))
    report(
        "traces_overhead",
        **{f"connections_{count}": compared(of) for count, of in rounds.items()},
    )


def compared(rounds: dict[str, list[Round]]) -> dict[str, Any]:
    """The rounds of each server, and its rate divided by that of the one without traces."""
    off = rounds["off"]
    return {
        name: {
            "rate_to_off": round(
                statistics.median(
                    turn.per_s / base.per_s for turn, base in zip(of, off, strict=True)
                ),
                3,
            ),
            "server_ms_of_cpu": round(
                statistics.median(1000 * turn.server_cores / turn.per_s for turn in of), 2
            ),
            **summary(of),
        }
        for name, of in rounds.items()
    }


if __name__ == "__main__":
    main()
