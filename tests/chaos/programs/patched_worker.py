"""The real worker, with the trainer program, clock or grace period of a test."""

import argparse
import sys
from datetime import UTC, datetime, timedelta

import time_machine


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clock-offset-s", type=float, default=0.0)
    parser.add_argument("--grace-s", type=float)
    parser.add_argument("trainer", nargs="+", help="the command of a trainer process")
    arguments = parser.parse_args()
    sys.argv[1:] = []
    if arguments.clock_offset_s:
        wrong = datetime.now(UTC) + timedelta(seconds=arguments.clock_offset_s)
        time_machine.travel(wrong, tick=True).start()
    # Patched before other modules import these values.
    from worker import trainer_process

    trainer_process.PROGRAM = tuple(arguments.trainer)  # type: ignore[misc]
    if arguments.grace_s is not None:
        from worker import stop_reason

        stop_reason.GRACE_S = arguments.grace_s  # type: ignore[misc]
    from worker.__main__ import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
