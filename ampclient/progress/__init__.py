"""Show jobs while they train: a live table with plots on a terminal, lines elsewhere."""

import os
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol, TextIO

from ampclient.progress.samples import SampleOf, Samples
from ampclient.progress.standing import FirstStep, Watched, names_apart, unknown
from ampclient.views import JobView

__all__ = ["Show", "names_apart", "show_progress"]


class Show(Protocol):
    """Takes what is to be shown."""

    def __call__(self, job: JobView, /) -> None:
        """A new view of a job."""

    def away(self, why: str) -> None:
        """The server gives no answer; it is asked again."""


def show_progress(
    stream: TextIO | None = None,
    *,
    first_step_of: FirstStep = unknown,
    sample_of: SampleOf | None = None,
    names: Mapping[str, str] | None = None,
) -> AbstractContextManager[Show]:
    """A context whose value is called with every new view of a job; standard error by default.

    `first_step_of` tells where the present attempt at a job began, `sample_of` its steps in few
    points, for the plots of a terminal; `names` what a job is called, by its id.
    """
    stream = stream or sys.stderr
    watched = Watched(first_step_of, names or {})
    if stream.isatty() and os.environ.get("TERM") != "dumb":
        from ampclient.progress.table import LiveTable

        return LiveTable(stream, watched, Samples(sample_of))
    from ampclient.progress.lines import Lines

    return Lines(stream, watched)
