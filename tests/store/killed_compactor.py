"""A process that compacts step blocks and kills itself before a given statement.

For each number on stdin it forks such a process and prints the exit code.
"""

import os
import signal
import sys

from sqlalchemy import event
from sqlalchemy.orm import configure_mappers

from server.background.compactor import Compactor
from store.database import Database


def compact(database: Database, limit: int) -> None:
    """Compact; kill this process before the statement that follows the first `limit` ones."""
    statements = [0]

    def count(*_: object) -> None:
        statements[0] += 1
        if statements[0] > limit:
            os.kill(os.getpid(), signal.SIGKILL)

    for name in ("before_cursor_execute", "commit"):
        event.listen(database.engine, name, count)
    Compactor(database).compact()


def compact_in_fork(database: Database, limit: int) -> int:
    """Compact in a fork, and return its exit code."""
    process = os.fork()
    if process == 0:
        compact(database, limit)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


configure_mappers()
database = Database(sys.argv[1])  # opens no connection before the fork
for line in sys.stdin:
    print(compact_in_fork(database, int(line)), flush=True)
