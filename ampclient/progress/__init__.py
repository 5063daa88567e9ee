"""Show jobs while they train: a live table on a terminal, lines elsewhere."""

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TextIO

from ampclient.progress.standing import FirstStep, unknown
from ampclient.views import JobView

Show = Callable[[JobView], None]


def show_progress(
    stream: TextIO | None = None, *, first_step_of: FirstStep = unknown
) -> AbstractContextManager[Show]:
    """A context whose value is called with every new view of a job; standard error by default.

    `first_step_of` tells where the present attempt at a job began.
    """
    stream = stream or sys.stderr
    if stream.isatty() and os.environ.get("TERM") != "dumb":
        from ampclient.progress.table import LiveTable

        return LiveTable(stream, first_step_of)
    from ampclient.progress.lines import Lines

    return Lines(stream, first_step_of)
