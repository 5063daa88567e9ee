"""A process as that of a worker with many slots: real relays of jobs whose trainers only talk.

Says in a line of JSON which jobs run, once they do; talks after a line on standard input; and says
last, in another line, by `time.monotonic`, when each block was due, as trainers in other processes
would send it, and when it was handed over. The jobs do not talk at the same moment.
"""

import argparse
import itertools
import json
import os
import sys
import time
from contextlib import ExitStack
from functools import partial

from service.bells import Bell
from store.database import Database
from store.loose import ENOUGH
from under_load.telemetry import block, claimed, relaying, stored, told


def main() -> None:
    """Run the jobs, wait, and talk."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument("--blocks", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True, help="in a block")
    parser.add_argument("--every-s", type=float, required=True)
    asked = parser.parse_args()
    database = Database(os.environ["AMPCORE_DATABASE_URL"])
    frames = [
        told(block(number * asked.steps, asked.steps)) for number in range(asked.blocks + ENOUGH)
    ]
    with ExitStack() as stack:
        bell = Bell(os.environ["AMPCORE_REDIS_URL"])
        stack.callback(bell.close)
        leases = [claimed(database) for _ in range(asked.jobs)]
        relays = [
            stack.enter_context(relaying(database, lease, 0, partial(bell.ring, lease.job_id)))
            for lease in leases
        ]
        # As if they had begun at different times: they are not merged at the same moment either.
        told_before = [number * ENOUGH // asked.jobs for number in range(asked.jobs)]
        for relay, count in zip(relays, told_before, strict=True):
            relay.carry(frames[:count])
        for relay in relays:
            stored(relay)
        ids = [lease.job_id for lease in leases]
        print(json.dumps(dict(zip(ids, told_before, strict=True))), flush=True)
        sys.stdin.readline()
        moments: dict[str, dict[str, list[float]]] = {
            since: {job_id: [] for job_id in ids} for since in ("due", "handed")
        }
        begin = time.monotonic()
        for turn, (index, job_id) in itertools.product(range(asked.blocks), enumerate(ids)):
            due = begin + (turn + index / asked.jobs) * asked.every_s
            time.sleep(max(due - time.monotonic(), 0))
            moments["due"][job_id].append(due)
            moments["handed"][job_id].append(time.monotonic())
            relays[index].carry([frames[told_before[index] + turn]])
        for relay in relays:
            stored(relay)
        print(json.dumps(moments), flush=True)
        sys.stdin.readline()
    database.close()


if __name__ == "__main__":
    main()
