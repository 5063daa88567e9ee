"""A worker whose clock is wrong by the seconds in the first argument."""

import sys
from datetime import UTC, datetime, timedelta

import time_machine

if __name__ == "__main__":
    wrong = datetime.now(UTC) + timedelta(seconds=float(sys.argv.pop(1)))
    time_machine.travel(wrong, tick=True).start()
    from worker.__main__ import main

    sys.exit(main())
