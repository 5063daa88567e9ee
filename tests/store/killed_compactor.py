"""Merge what waits in a database, and be killed in the middle of it, at the n-th statement."""

import os
import signal
import sys

from sqlalchemy import event

from server.compact import Compactor
from store.database import Database


def main(url: str, at: int) -> None:
    database = Database(url)
    seen = [0]

    def count(*_):
        seen[0] += 1
        if seen[0] > at:
            os.kill(os.getpid(), signal.SIGKILL)

    for name in ("before_cursor_execute", "commit"):
        event.listen(database.engine, name, count)
    Compactor(database).compact()
    print(seen[0])


main(sys.argv[1], int(sys.argv[2]))
