"""How long steps take from a worker's relay until the API shows them: one JSON line.

100 jobs at once tell of 100 steps every half second, all columns, through real relays in one
process; their trainers only talk. A few jobs are read over HTTP from a real server, quickly, but
not so quickly that the readers would take the two cores: a time may be one poll too long. At the
end every step of every job is looked for. SQLite and PostgreSQL, one after the other.
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
from contest import report
from sqlalchemy import func, select
from under_load.lines import Talk
from under_load.load import busy_s, in_threads, millis
from under_load.parts import DATABASES, Api, Surroundings, api, surroundings

from store.tables import StepBlockRow

STEPS = 100
EVERY_S = 0.5
POLL_S = 0.1
PATIENCE_S = 60.0


def watched(server: Api, end_step: int, job: tuple[str, int]) -> tuple[str, list[float]]:
    """When each block of a job was seen, but for those told before, by `time.monotonic`."""
    job_id, told_before = job
    connection, seen, known = server.connection(), [], told_before * STEPS
    until = time.monotonic() + end_step / STEPS * EVERY_S + PATIENCE_S
    while known < told_before * STEPS + end_step and time.monotonic() < until:
        time.sleep(POLL_S)
        path = f"/api/v1/jobs/{job_id}/steps?after={known - 1}"
        known = orjson.loads(connection.request("GET", path))["next"] + 1
        while (told_before + len(seen) + 1) * STEPS <= known:
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


def merged_blocks(around: Surroundings) -> int:
    """How many blocks the server's compactor has left."""
    with around.database.read() as session:
        merged = select(func.count()).where(StepBlockRow.marks.is_not(None))
        return session.scalar(merged) or 0


def measure(kind: str, jobs: int, blocks: int, sample: int) -> dict[str, Any]:
    """Times over all blocks of the jobs in the sample."""
    with ExitStack() as stack:
        around = stack.enter_context(surroundings(kind))
        server = stack.enter_context(api(around))
        sizes = {"jobs": jobs, "blocks": blocks, "steps": STEPS, "every-s": EVERY_S}
        program = ["under_load.talking_relays", *(f"--{name}={of}" for name, of in sizes.items())]
        talk = stack.enter_context(Talk.with_module(sys.executable, program, around.environment()))
        told_before: dict[str, int] = talk.hear()
        chosen = random.Random(0).sample(sorted(told_before.items()), sample)
        processes = {"worker": talk.pid, "server": server.pid, "readers": os.getpid()}
        before, begin = {name: busy_s(pid) for name, pid in processes.items()}, time.monotonic()
        talk.say("begin")
        seen = dict(in_threads(partial(watched, server, blocks * STEPS), chosen))
        result, lasted_s = talk.hear(), time.monotonic() - begin
        cores = {name: (busy_s(pid) - before[name]) / lasted_s for name, pid in processes.items()}
        wanted = {job_id: (of + blocks) * STEPS for job_id, of in told_before.items()}
        missing, merged = lost(server, wanted), merged_blocks(around)
    times = {
        since: [
            shown - moment
            for job_id, moments in seen.items()
            for moment, shown in zip(result[since][job_id], moments, strict=False)
        ]
        for since in ("handed", "due")
    }
    return {f"since_{name}": millis(taken) for name, taken in times.items()} | {
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
    asked = parser.parse_args()
    blocks = round(asked.seconds / EVERY_S)
    report(
        "visible",
        goal_p99_ms=1500,
        jobs=asked.jobs,
        read_every_ms=1000 * POLL_S,
        **{kind: measure(kind, asked.jobs, blocks, asked.sample) for kind in DATABASES},
    )


if __name__ == "__main__":
    main()
