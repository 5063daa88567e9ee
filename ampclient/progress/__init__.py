"""Shows the progress of jobs: a live table with plots on a terminal, lines elsewhere."""

import os
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol, TextIO

from ampclient._job.view import JobView
from ampclient.progress.job_progress import (
    FirstStep,
    ProgressTracker,
    distinct_names,
    no_first_step,
)
from ampclient.progress.samples import FetchSample, SampleCache

__all__ = ["ProgressDisplay", "distinct_names", "show_progress"]


class ProgressDisplay(Protocol):
    """Shows views of jobs as they are fetched."""

    def __call__(self, job: JobView, /) -> None:
        """Show a new view of a job."""

    def server_unavailable(self, reason: str) -> None:
        """Show that the server does not respond and is retried."""


def show_progress(
    stream: TextIO | None = None,
    *,
    first_step_of: FirstStep = no_first_step,
    sample_of: FetchSample | None = None,
    names: Mapping[str, str] | None = None,
) -> AbstractContextManager[ProgressDisplay]:
    """A context manager with a display to call with every new view; on standard error by default.

    `first_step_of` returns the first step of a job's current attempt, `sample_of` its downsampled
    steps for the plots on a terminal; `names` are the displayed names by job id.
    """
    stream = stream or sys.stderr
    tracker = ProgressTracker(first_step_of, names or {})
    if stream.isatty() and os.environ.get("TERM") != "dumb":
        from ampclient.progress.live_table import LiveTable

        return LiveTable(stream, tracker, SampleCache(sample_of))
    from ampclient.progress.lines import ProgressLines

    return ProgressLines(stream, tracker)
