"""Contexts in which the commands run: Ctrl-C stops the training, native code logs into a file."""

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

import typer

from ampcore import environment
from ampcore.distributed.launchers.rank_output import with_prefix_of

STDERR: Final = 2


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets; a second Ctrl-C ends the program at once."""
    stop = threading.Event()

    def interrupt(*_: object) -> None:
        stop.set()
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    previous_handler = signal.signal(signal.SIGINT, interrupt)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, previous_handler)


@contextmanager
def capture_native_log() -> Iterator[TextIO]:
    """Capture the log of TensorFlow's C++ code; yields the real standard error.

    It bypasses Python and, before TensorFlow has read its settings, every log level. The captured
    log is printed if the run ends with an unexpected error.
    """
    environment.configure()
    sys.stderr.flush()
    python_stderr = sys.stderr
    with os.fdopen(os.dup(STDERR), "w") as stream, tempfile.TemporaryFile("w+") as log:
        stderr = with_prefix_of(python_stderr, stream)
        os.dup2(log.fileno(), STDERR)
        sys.stderr = stderr
        try:
            yield stderr
        except Exception as error:
            if not isinstance(error, typer.Exit):
                log.seek(0)
                stderr.write(log.read())
            raise
        finally:
            stderr.flush()
            os.dup2(stream.fileno(), STDERR)
            sys.stderr = python_stderr
