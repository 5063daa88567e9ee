"""A process that merges step blocks and kills itself at the n-th statement.

Each number that is read is one such process, a fork; its exit code is what is answered.
"""

import os
import signal
import sys

from sqlalchemy import event
from sqlalchemy.orm import configure_mappers

from server.background.compactor import Compactor
from store.database import Database


def compact(database: Database, at: int) -> None:
    """Merge; killed before the statement after the first `at` ones."""
    seen = [0]

    def count(*_: object) -> None:
        seen[0] += 1
        if seen[0] > at:
            os.kill(os.getpid(), signal.SIGKILL)

    for name in ("before_cursor_execute", "commit"):
        event.listen(database.engine, name, count)
    Compactor(database).compact()


def forked(database: Database, at: int) -> int:
    """The exit code of a process that does so."""
    process = os.fork()
    if process == 0:
        compact(database, at)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


configure_mappers()
unopened = Database(sys.argv[1])
for line in sys.stdin:
    print(forked(unopened, int(line)), flush=True)
