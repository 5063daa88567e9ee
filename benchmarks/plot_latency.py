"""The latency of a plot of 1,000 points for a long job and for a job a hundredth as long.

Prints one JSON line. It requests random ranges, the same parts of both jobs, over HTTP from a real
server on SQLite and on PostgreSQL in alternation, with all columns and with two. Every response
must include every skipped step of its range, listed individually where they are few. MLflow is
measured in the same rounds: its plots cover whole runs, one metric each, with the requested number
of points.
"""

import argparse
import itertools
import random
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

import orjson
from compare import report
from under_load.http_connection import Connection
from under_load.load import percentile
from under_load.mlflow_process import MlflowRun, add_peers_option, mlflow_process
from under_load.service_processes import DATABASES, Api, api, service_environment
from under_load.telemetry import create_finished_job, skipped_between

from store.telemetry.key_steps import MAX_LISTED

POINTS = 1000
PEER_POINTS = (1000, 320)
PEER_SKIPS = 50
PEER_EVERY = 10
COLUMNS = {"all": "", "two": "&columns=loss,loss_scale"}
WHOLE = (0.0, 1.0)


@dataclass(frozen=True)
class Job:
    """A job on one of the servers."""

    connection: Connection
    id: str
    steps: int

    def plotted(self, part: tuple[float, float], columns: str) -> float:
        """Milliseconds until the last byte of a plot that includes every skipped step."""
        start, end = (int(share * self.steps) for share in part)
        query = f"start={start}&end={end}&max_points={POINTS}{COLUMNS[columns]}"
        begin = time.perf_counter()
        body = self.connection.request("GET", f"/api/v1/jobs/{self.id}/steps?{query}")
        taken_ms = 1000 * (time.perf_counter() - begin)
        check(orjson.loads(body), skipped_between(start, end))
        return taken_ms


Jobs = dict[str, Job]


def check(answer: Mapping[str, Any], skipped: list[int]) -> None:
    """Raises AssertionError if the plot omits a skipped step."""
    assert len(answer["data"]["step"]) <= POINTS
    assert sum(answer["data"].get("skipped", [len(skipped)])) == len(skipped)
    assert answer["skipped_steps"] == {"total": len(skipped), "steps": skipped[:MAX_LISTED]}


@contextmanager
def served(kind: str, lengths: Mapping[str, int]) -> Iterator[tuple[Api, dict[str, str]]]:
    """A server, and the ids of its jobs of the given lengths, by the same names."""
    with service_environment(kind) as service:
        ids = {
            name: create_finished_job(service.database, steps) for name, steps in lengths.items()
        }
        with api(service) as running:
            yield running, ids


@contextmanager
def connected(running: Api, ids: Mapping[str, str], lengths: Mapping[str, int]) -> Iterator[Jobs]:
    """The jobs, requested over one connection."""
    with closing(running.connection()) as connection:
        yield {name: Job(connection, ids[name], steps) for name, steps in lengths.items()}


def ranges(number: int) -> Iterator[tuple[float, float]]:
    """Random parts of a job."""
    draw = random.Random(0)
    for _ in range(number):
        start, end = sorted((draw.random(), draw.random()))
        yield start, end


def figures(taken_ms: list[float]) -> dict[str, float]:
    """Statistics of many reads; the last one read a whole job."""
    return {
        "p50_ms": round(statistics.median(taken_ms), 1),
        "p95_ms": round(percentile(taken_ms, 95), 1),
        "whole_job_ms": round(taken_ms[-1], 1),
    }


def main() -> None:
    """Measure in alternation and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", type=int, default=10_000_000, help="steps")
    parser.add_argument("--short", type=int, default=100_000, help="steps")
    parser.add_argument("--peer-steps", type=int, default=20_000)
    parser.add_argument("--ranges", type=int, default=200)
    add_peers_option(parser)
    arguments = parser.parse_args()
    taken: dict[str, list[float]] = {}
    theirs: dict[int, list[tuple[float, int]]] = {points: [] for points in PEER_POINTS}
    with ExitStack() as stack:
        peer = stack.enter_context(mlflow_process(arguments.peers))
        run = MlflowRun.logged(peer, arguments.peer_steps, PEER_SKIPS)
        lengths = {"long": arguments.long, "short": arguments.short}
        servers = {kind: stack.enter_context(served(kind, lengths)) for kind in DATABASES}
        jobs = {
            kind: stack.enter_context(connected(*served_one, lengths))
            for kind, served_one in servers.items()
        }
        names = list(itertools.product(DATABASES, lengths, COLUMNS))
        for kind, length, columns in names:
            jobs[kind][length].plotted(WHOLE, columns)  # the first plot imports modules
        for turn, part in enumerate([*ranges(arguments.ranges), WHOLE]):
            for kind, length, columns in names:
                taken_ms = jobs[kind][length].plotted(part, columns)
                taken.setdefault(f"{kind}-{columns}-{length}", []).append(taken_ms)
            for points in PEER_POINTS if turn % PEER_EVERY == 0 else ():
                theirs[points].append(run.plotted(points))
        about = peer.call("about")
    ours = {name: figures(of) for name, of in taken.items()}
    report(
        "plot_latency",
        goal_p95_ms=25,
        goal_long_over_short=1.5,
        **ours,
        long_over_short={
            name: {of: round(ours[f"{name}-long"][of] / short[of], 2) for of in short}
            for name in (f"{kind}-{columns}" for kind in DATABASES for columns in COLUMNS)
            for short in [ours[f"{name}-short"]]
        },
        skipped={name: len(skipped_between(0, steps)) for name, steps in lengths.items()},
        skipped_shown="all, in every answer",
        mlflow={
            f"{points} points": {
                "p50_ms": round(statistics.median(ms for ms, _ in found), 1),
                "skipped_shown": f"{found[0][1]} of {PEER_SKIPS}",
            }
            for points, found in theirs.items()
        },
        steps=lengths | {"mlflow": arguments.peer_steps},
        ranges=arguments.ranges,
        versions=about,
    )


if __name__ == "__main__":
    main()
