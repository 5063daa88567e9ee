"""The program of each rank in `test_hanging_rank.py`: rank 1 hangs in Python, outside of exchanges.

Its process still sends heartbeats. Each rank writes what it is told into the folder that is its
argument.
"""

import json
import sys
from pathlib import Path

from ampcore import distributed
from ampspec.errors import RankDisconnected
from tests.waiting import DEADLINE_S

SHORT_S = 2.0
"""How long rank 0 waits for a rank that does nothing. To connect, the ranks have more time."""


def told(communicator):
    """What this rank is told when rank 0 waits for rank 1."""
    if communicator.rank == 1:
        return communicator._control.failure(DEADLINE_S)  # it waits for a lock, as a deadlock does
    communicator._control._timeout_s = SHORT_S
    try:
        communicator.barrier()
    except RankDisconnected as error:
        return error
    return None


def main():
    communicator = distributed.connect_from_environment()
    failure = told(communicator)
    answer = {"ranks": getattr(failure, "ranks", None), "message": str(failure)}
    (Path(sys.argv[1]) / f"rank-{communicator.rank}.json").write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
