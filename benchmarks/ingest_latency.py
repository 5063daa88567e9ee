"""Latency from a worker's telemetry writer until the API returns the steps: one JSON line.

100 jobs at once write 100 steps every half second, all columns, through real telemetry writers in
one process, with synthetic trainers. A few jobs are polled over HTTP from a real server, slowly
enough that the readers do not take the two cores: a latency may be one poll too long. At the end
every step of every job is checked. SQLite and PostgreSQL, one after the other.
"""

import argparse
import os
import random
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import orjson
from compare import report
from sqlalchemy import func, select
from under_load.json_process import JsonProcess
from under_load.load import cpu_s, in_threads, latency_ms
from under_load.service_processes import (
    DATABASES,
    Api,
    ServiceEnvironment,
    api,
    service_environment,
)

from store.tables import StepBlockRow

STEPS = 100
EVERY_S = 0.5
POLL_S = 0.1
DEADLINE_S = 60.0


def watched(server: Api, end_step: int, job: tuple[str, int]) -> tuple[str, list[float]]:
    """When each block of a job was seen, without earlier ones, by `time.monotonic`."""
    job_id, blocks_before = job
    connection, seen, known = server.connection(), [], blocks_before * STEPS
    until = time.monotonic() + end_step / STEPS * EVERY_S + DEADLINE_S
    while known < blocks_before * STEPS + end_step and time.monotonic() < until:
        time.sleep(POLL_S)
        path = f"/api/v1/jobs/{job_id}/steps?after={known - 1}"
        known = orjson.loads(connection.request("GET", path))["next"] + 1
        while (blocks_before + len(seen) + 1) * STEPS <= known:
            seen.append(time.monotonic())
    connection.close()
    return job_id, seen


def lost(server: Api, wanted: Mapping[str, int]) -> int:
    """Of all jobs, steps that cannot be read; and those that come twice or out of order."""
    connection, missing = server.connection(), 0
    for job_id, steps in wanted.items():
        path = f"/api/v1/jobs/{job_id}/steps?columns=loss&limit=100000"
        found = orjson.loads(connection.request("GET", path))["data"]["step"]
        missing += len(set(range(steps)) ^ set(found)) + len(found) - len(set(found))
        assert found == sorted(found)
    connection.close()
    return missing


def merged_blocks(service: ServiceEnvironment) -> int:
    """How many blocks the server's compactor has left."""
    with service.database.read() as session:
        merged = select(func.count()).where(StepBlockRow.merge_index.is_not(None))
        return session.scalar(merged) or 0


def measure(kind: str, jobs: int, blocks: int, sample: int) -> dict[str, Any]:
    """Times over all blocks of the jobs in the sample."""
    with ExitStack() as stack:
        service = stack.enter_context(service_environment(kind))
        server = stack.enter_context(api(service))
        sizes = {"jobs": jobs, "blocks": blocks, "steps": STEPS, "every-s": EVERY_S}
        program = [
            "under_load.synthetic_writers",
            *(f"--{name}={of}" for name, of in sizes.items()),
        ]
        process = stack.enter_context(
            JsonProcess.with_module(sys.executable, program, service.environment())
        )
        blocks_before: dict[str, int] = process.receive()
        chosen = random.Random(0).sample(sorted(blocks_before.items()), sample)
        processes = {"worker": process.pid, "server": server.pid, "readers": os.getpid()}
        before, begin = {name: cpu_s(pid) for name, pid in processes.items()}, time.monotonic()
        process.send("begin")
        seen = dict(in_threads(partial(watched, server, blocks * STEPS), chosen))
        result, lasted_s = process.receive(), time.monotonic() - begin
        cores = {name: (cpu_s(pid) - before[name]) / lasted_s for name, pid in processes.items()}
        wanted = {job_id: (of + blocks) * STEPS for job_id, of in blocks_before.items()}
        missing, merged = lost(server, wanted), merged_blocks(service)
    times = {
        since: [
            shown - moment
            for job_id, moments in seen.items()
            for moment, shown in zip(result[since][job_id], moments, strict=False)
        ]
        for since in ("handed", "due")
    }
    return {f"since_{name}": latency_ms(taken) for name, taken in times.items()} | {
        "blocks_seen": len(times["due"]),
        "blocks_not_seen": blocks * sample - len(times["due"]),
        "steps_lost": missing,
        "steps_stored": sum(wanted.values()),
        "merged_blocks": merged,
        "cores": {name: round(of, 2) for name, of in cores.items()},
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--sample", type=int, default=6, help="jobs that are read")
    arguments = parser.parse_args()
    blocks = round(arguments.seconds / EVERY_S)
    report(
        "ingest_latency",
        goal_p99_ms=1500,
        jobs=arguments.jobs,
        read_every_ms=1000 * POLL_S,
        **{kind: measure(kind, arguments.jobs, blocks, arguments.sample) for kind in DATABASES},
    )


if __name__ == "__main__":
    main()
