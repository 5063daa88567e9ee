"""The process that plans studies: reads tasks from a connection until that is closed.

Its argument is the number of the file descriptor of its end of the connection.
"""

import os
import resource
import sys
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Final

NICE: Final = 5
"""Requests go first."""
MEMORY_BYTES: Final = 4 * 2**30


def main() -> None:
    """Answer each task with its result, or with the traceback of its error."""
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    # The server closes its end when it ends, also when it is killed.
    with Connection(int(sys.argv[1])) as server, suppress(EOFError, ConnectionError):
        while True:
            function, arguments = server.recv()
            try:
                answer = (False, function(*arguments))
            except Exception:
                answer = (True, traceback.format_exc())
            server.send(answer)


if __name__ == "__main__":
    main()
