"""`python -m worker` with synthetic trainers: more jobs than two cores could train."""

import functools
import sys
from pathlib import Path

import worker.app
from worker.__main__ import main
from worker.trainer.standby import Standby

TRAINER = (sys.executable, str(Path(__file__).with_name("synthetic_trainer.py")))

if __name__ == "__main__":
    worker.app.Standby = functools.partial(Standby, program=TRAINER)
    sys.exit(main())
