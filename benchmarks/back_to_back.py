"""How long jobs wait for their first step when submitted one after another: one JSON line.

Each job is submitted as the one before ends. One slot, one stack on 127.0.0.1 in a temporary
folder. To compare two versions on a busy machine, alternate their runs.
"""

import argparse
import statistics
import time

from compare import report
from startup_latency import SPEC, stack, wait_until

JOBS = 20


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS)
    count = parser.parse_args().jobs
    waits = []
    with stack() as running:
        wait_until(running.is_standby_idle)
        for _ in range(count):
            begin = time.perf_counter()
            job = running.client.jobs.submit(SPEC)
            wait_until(lambda: len(job.steps(end=1)) == 1)  # noqa: B023
            waits.append(time.perf_counter() - begin)
            job.wait(timeout_s=300)
    report(
        "back_to_back",
        goal_s=0.35,
        goal_worst_s=0.8,
        post_to_first_step_s=round(statistics.median(waits), 3),
        post_to_first_step_worst_s=round(max(waits), 3),
        jobs=len(waits),
    )


if __name__ == "__main__":
    main()
