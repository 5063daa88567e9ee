"""The process that plans studies: reads tasks from its standard input until that is closed."""

import os
import pickle
import resource
import sys
import traceback
from typing import Any, BinaryIO, Final

from server.studies.planner import LENGTH

NICE: Final = 5
"""Requests go first."""
MEMORY_BYTES: Final = 4 * 2**30


def main() -> None:
    """Answer each task with its result, or with the traceback of its error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a library that prints must not answer
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    while (task := _next_task(sys.stdin.buffer)) is not None:
        function, arguments = task
        try:
            answer = (False, function(*arguments))
        except Exception:
            answer = (True, traceback.format_exc())
        payload = pickle.dumps(answer)
        answers.write(LENGTH.pack(len(payload)) + payload)
        answers.flush()


def _next_task(tasks: BinaryIO) -> Any:
    header = tasks.read(LENGTH.size)
    if len(header) < LENGTH.size:
        return None
    return pickle.loads(tasks.read(LENGTH.unpack(header)[0]))  # noqa: S301 - of our own server


if __name__ == "__main__":
    main()
