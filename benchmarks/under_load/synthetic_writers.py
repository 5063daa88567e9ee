"""Real telemetry writers of many synthetic jobs in one process, as in a worker with many slots.

Prints the running jobs as a line of JSON, writes blocks after a line on stdin, and prints at the
end, by `time.monotonic`, when each block was due (as trainers in other processes would send it) and
when it was enqueued. The jobs' blocks are spread over the interval.
"""

import argparse
import itertools
import json
import os
import sys
import time
from contextlib import ExitStack
from functools import partial

from infra.notify import Notifier
from store.database import Database
from store.telemetry.compaction_queue import MIN_BLOCKS
from under_load.telemetry import (
    block,
    claim_new_job,
    steps_frame,
    wait_until_stored,
    writing_telemetry,
)


def main() -> None:
    """Run the jobs, wait, and write their blocks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument("--blocks", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True, help="in a block")
    parser.add_argument("--every-s", type=float, required=True)
    arguments = parser.parse_args()
    database = Database(os.environ["AMPCORE_DATABASE_URL"])
    frames = [
        steps_frame(block(number * arguments.steps, arguments.steps))
        for number in range(arguments.blocks + MIN_BLOCKS)
    ]
    with ExitStack() as stack:
        notifier = Notifier(os.environ["AMPCORE_REDIS_URL"])
        stack.callback(notifier.close)
        leases = [claim_new_job(database) for _ in range(arguments.jobs)]
        writers = [
            stack.enter_context(
                writing_telemetry(database, lease, 0, partial(notifier.notify, lease.job_id))
            )
            for lease in leases
        ]
        # As if they had started at different times, so that they are not merged at once.
        blocks_before = [number * MIN_BLOCKS // arguments.jobs for number in range(arguments.jobs)]
        for writer, count in zip(writers, blocks_before, strict=True):
            writer.enqueue_frames(frames[:count])
        for writer in writers:
            wait_until_stored(writer)
        ids = [lease.job_id for lease in leases]
        print(json.dumps(dict(zip(ids, blocks_before, strict=True))), flush=True)
        sys.stdin.readline()
        moments: dict[str, dict[str, list[float]]] = {
            since: {job_id: [] for job_id in ids} for since in ("due", "handed")
        }
        begin = time.monotonic()
        for turn, (index, job_id) in itertools.product(range(arguments.blocks), enumerate(ids)):
            due = begin + (turn + index / arguments.jobs) * arguments.every_s
            time.sleep(max(due - time.monotonic(), 0))
            moments["due"][job_id].append(due)
            moments["handed"][job_id].append(time.monotonic())
            writers[index].enqueue_frames([frames[blocks_before[index] + turn]])
        for writer in writers:
            wait_until_stored(writer)
        print(json.dumps(moments), flush=True)
        sys.stdin.readline()
    database.close()


if __name__ == "__main__":
    main()
