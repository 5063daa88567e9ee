"""Follow jobs to their ends: shown whenever they are looked at, over restarts of the server."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ampclient.errors import AmpcoreError, ConnectionFailed, StatusError
from ampclient.retry import TRANSIENT
from ampclient.wait import POLL_S

if TYPE_CHECKING:
    from ampclient.job import Job
    from ampclient.progress import Show
    from ampclient.views import JobView, StepSample

AWAY_S: Final = 600.0
"""How long a server may be away: long enough for an upgrade, or for a laptop that slept."""
AGAIN_S: Final = 1.0
POINTS: Final = 240
"""Of a plot: two for each character of a wide terminal."""


def follow(jobs: "Sequence[Job]") -> "list[Job]":
    """The jobs once all of them have ended. Raises ConnectionFailed or StatusError."""
    from ampclient.progress import names_apart, show_progress

    by_id = {job.id: job for job in jobs}
    with show_progress(
        first_step_of=lambda view: _first_step(by_id[view.id], view.attempt),
        sample_of=lambda view: _sample(by_id[view.id], view),
        names=names_apart(jobs) if len(jobs) > 1 else None,
    ) as show:
        while True:
            jobs = [_looked_at(job, show) for job in jobs]
            if all(job.state.is_terminal for job in jobs):
                return list(jobs)
            time.sleep(POLL_S)


def _looked_at(job: "Job", show: "Show") -> "Job":
    """The job as it is now, shown; a server that is away is waited for."""
    away_since_s = None
    while True:
        try:
            # One that has ended is not asked for again.
            job = job if job.state.is_terminal else job.refresh(patience_s=0)
        except (ConnectionFailed, StatusError) as error:
            away_since_s = away_since_s or time.monotonic()
            if not _passes(error) or time.monotonic() - away_since_s > AWAY_S:
                raise
            show.away(str(error))
            time.sleep(AGAIN_S)
        else:
            show(job)
            return job


def _passes(error: ConnectionFailed | StatusError) -> bool:
    """Whether it is of a kind that a server which comes back leaves behind."""
    return isinstance(error, ConnectionFailed) or error.status in TRANSIENT


def _first_step(job: "Job", number: int) -> int | None:
    """Where an attempt began; None where that cannot be found out."""
    try:
        attempts = job.attempts()
    except AmpcoreError:
        return None
    return next((a.first_step for a in attempts if a.attempt == number), None)


def _sample(job: "Job", view: "JobView") -> "StepSample":
    from ampclient.progress.plots import COLUMNS

    return job.sample(POINTS, columns=COLUMNS)
