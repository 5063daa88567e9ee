"""Follow jobs until they end, with live progress, across restarts of the server."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ampclient._http.retry import RETRYABLE_STATUSES
from ampclient._job.wait import POLL_S
from ampclient.errors import AmpcoreError, ConnectionFailed, StatusError

if TYPE_CHECKING:
    from ampclient._job.job import Job
    from ampclient._job.view import JobView
    from ampclient._telemetry.step_sample import StepSample
    from ampclient.progress import ProgressDisplay

SERVER_TIMEOUT_S: Final = 600.0
"""How long an unreachable server is retried: enough for an upgrade or a suspended laptop."""
RETRY_INTERVAL_S: Final = 1.0
POINTS: Final = 240
"""Points of a plot: two for each character of a wide terminal."""


def follow(jobs: "Sequence[Job]") -> "list[Job]":
    """Return the jobs once all of them have ended. Raises ConnectionFailed or StatusError."""
    from ampclient.progress import distinct_names, show_progress

    by_id = {job.id: job for job in jobs}
    with show_progress(
        first_step_of=lambda view: _first_step(by_id[view.id], view.attempt),
        sample_of=lambda view: _sample(by_id[view.id], view),
        names=distinct_names(jobs) if len(jobs) > 1 else None,
    ) as show:
        while True:
            jobs = [_refreshed(job, show) for job in jobs]
            if all(job.state.is_terminal for job in jobs):
                return list(jobs)
            time.sleep(POLL_S)


def _refreshed(job: "Job", show: "ProgressDisplay") -> "Job":
    """Fetch and show the job; an unreachable server is retried."""
    unavailable_since_s = None
    while True:
        try:
            # A job that has ended does not change any more.
            job = job if job.state.is_terminal else job.refresh(retry_timeout_s=0)
        except (ConnectionFailed, StatusError) as error:
            unavailable_since_s = unavailable_since_s or time.monotonic()
            if (
                not _is_temporary(error)
                or time.monotonic() - unavailable_since_s > SERVER_TIMEOUT_S
            ):
                raise
            show.server_unavailable(str(error))
            time.sleep(RETRY_INTERVAL_S)
        else:
            show(job)
            return job


def _is_temporary(error: ConnectionFailed | StatusError) -> bool:
    """Whether the error may go away when the server is back."""
    return isinstance(error, ConnectionFailed) or error.status in RETRYABLE_STATUSES


def _first_step(job: "Job", number: int) -> int | None:
    """The first step of an attempt; None if it cannot be fetched."""
    try:
        attempts = job.attempts()
    except AmpcoreError:
        return None
    return next((a.first_step for a in attempts if a.attempt == number), None)


def _sample(job: "Job", view: "JobView") -> "StepSample":
    from ampclient.progress.plots import COLUMNS

    return job.sample(POINTS, columns=COLUMNS)
