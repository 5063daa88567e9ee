"""The real worker, with the trainer program, clock or grace period of a test."""

import argparse
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread

import time_machine


def follow_clock(file: Path) -> None:
    """Set the clock to the offset in a file, in seconds, whenever it changes."""
    began, clock, offset_s, travel = datetime.now(UTC), time.monotonic(), 0.0, None
    while True:
        wanted_s = float(file.read_text() or 0) if file.exists() else 0.0
        if wanted_s != offset_s:
            if travel is not None:
                travel.stop()
            passed_s = time.monotonic() - clock + wanted_s
            travel = time_machine.travel(began + timedelta(seconds=passed_s), tick=True)
            travel.start()
            offset_s = wanted_s
        time.sleep(0.2)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clock-offset-s", type=float, default=0.0)
    parser.add_argument("--clock-file", type=Path, help="the offset, which may change at any time")
    parser.add_argument("--grace-s", type=float)
    parser.add_argument("trainer", nargs="+", help="the command of a trainer process")
    arguments = parser.parse_args()
    sys.argv[1:] = []
    if arguments.clock_offset_s:
        wrong = datetime.now(UTC) + timedelta(seconds=arguments.clock_offset_s)
        time_machine.travel(wrong, tick=True).start()
    if arguments.clock_file is not None:
        Thread(target=follow_clock, args=[arguments.clock_file], daemon=True).start()
    # Patched before other modules import these values.
    from worker.trainer import trainer_process

    trainer_process.PROGRAM = tuple(arguments.trainer)  # type: ignore[misc]
    if arguments.grace_s is not None:
        from worker import shutdown

        shutdown.GRACE_S = arguments.grace_s  # type: ignore[misc]
    from worker.__main__ import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
