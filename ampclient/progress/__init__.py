"""ProgressDisplay jobs while they train: a live table with plots on a terminal, lines elsewhere."""

import os
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol, TextIO

from ampclient.job_view import JobView
from ampclient.progress.job_progress import (
    FirstStep,
    ProgressTracker,
    distinct_names,
    no_first_step,
)
from ampclient.progress.samples import FetchSample, SampleCache

__all__ = ["ProgressDisplay", "distinct_names", "show_progress"]


class ProgressDisplay(Protocol):
    """Takes what is to be shown."""

    def __call__(self, job: JobView, /) -> None:
        """A new view of a job."""

    def server_unavailable(self, reason: str) -> None:
        """The server gives no answer; it is asked again."""


def show_progress(
    stream: TextIO | None = None,
    *,
    first_step_of: FirstStep = no_first_step,
    sample_of: FetchSample | None = None,
    names: Mapping[str, str] | None = None,
) -> AbstractContextManager[ProgressDisplay]:
    """A context whose value is called with every new view of a job; standard error by default.

    `first_step_of` tells where the present attempt at a job began, `sample_of` its steps in few
    points, for the plots of a terminal; `names` what a job is called, by its id.
    """
    stream = stream or sys.stderr
    tracker = ProgressTracker(first_step_of, names or {})
    if stream.isatty() and os.environ.get("TERM") != "dumb":
        from ampclient.progress.live_table import LiveTable

        return LiveTable(stream, tracker, SampleCache(sample_of))
    from ampclient.progress.lines import ProgressLines

    return ProgressLines(stream, tracker)
