"""Sends requests over many connections at once, and measures their latency."""

import math
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import psutil

from under_load.http_connection import Connection

T = TypeVar("T")
R = TypeVar("R")

Ask = Callable[[Connection], object]
"""One request."""


@dataclass(frozen=True)
class Round:
    """The measurements of one round."""

    latencies_s: list[float]
    lasted_s: float
    server_cores: float
    """The server's CPU time as a share of one core."""
    client_cores: float
    """The same for this process: near 1 the client would be the bottleneck."""

    @property
    def per_s(self) -> float:
        """Responses per second."""
        return len(self.latencies_s) / self.lasted_s


def send_requests(
    connections: Sequence[Connection], ask: Ask, lasting_s: float, server: int
) -> Round:
    """Send requests back to back on each connection; `server` is the server's process id."""
    until = time.perf_counter() + lasting_s

    def work(connection: Connection) -> list[float]:
        taken = []
        while (begin := time.perf_counter()) < until:
            ask(connection)
            taken.append(time.perf_counter() - begin)
        return taken

    processes = server, os.getpid()
    before, begin = [cpu_s(pid) for pid in processes], time.perf_counter()
    latencies = [one for taken in in_threads(work, connections) for one in taken]
    lasted_s = time.perf_counter() - begin
    cores = [(cpu_s(pid) - was) / lasted_s for pid, was in zip(processes, before, strict=True)]
    return Round(latencies, lasted_s, *cores)


def cpu_s(pid: int) -> float:
    """The CPU time of a process, in seconds."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def in_threads(work: Callable[[T], R], over: Iterable[T]) -> list[R]:
    """Run it for each item in its own thread, all at once; raises the first error."""
    results: list[Any] = []
    errors: list[BaseException] = []

    def run(one: T) -> None:
        try:
            results.append(work(one))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=[one]) for one in over]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def latency_ms(latencies_s: Sequence[float]) -> dict[str, float]:
    """Median, 99th percentile and worst, in milliseconds."""
    return {
        "p50_ms": round(1000 * statistics.median(latencies_s), 2),
        "p99_ms": round(1000 * percentile(latencies_s, 99), 2),
        "worst_ms": round(1000 * max(latencies_s), 2),
    }


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that is not exceeded by this percentage of the values."""
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]


def summary(rounds: Sequence[Round]) -> dict[str, Any]:
    """Medians over the rounds; latencies over all requests."""
    return {
        "per_s": round(statistics.median(one.per_s for one in rounds), 1),
        "per_s_of_rounds": [round(one.per_s, 1) for one in rounds],
        **latency_ms([latency for one in rounds for latency in one.latencies_s]),
        "server_cores": round(statistics.median(one.server_cores for one in rounds), 2),
        "client_cores": round(statistics.median(one.client_cores for one in rounds), 2),
    }
