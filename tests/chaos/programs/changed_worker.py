"""The real worker, but its trainer program, its clock or its grace period is the test's."""

import argparse
import sys
from datetime import UTC, datetime, timedelta

import time_machine


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clock-off-s", type=float, default=0.0)
    parser.add_argument("--grace-s", type=float)
    parser.add_argument("trainer", nargs="+", help="the command of a trainer process")
    arguments = parser.parse_args()
    sys.argv[1:] = []
    if arguments.clock_off_s:
        wrong = datetime.now(UTC) + timedelta(seconds=arguments.clock_off_s)
        time_machine.travel(wrong, tick=True).start()
    # Before the modules are imported that take these values over.
    from worker import supervisor

    supervisor.PROGRAM = tuple(arguments.trainer)  # type: ignore[misc]
    if arguments.grace_s is not None:
        from worker import halts

        halts.GRACE_S = arguments.grace_s  # type: ignore[misc]
    from worker.__main__ import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
