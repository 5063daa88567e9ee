"""Follow jobs until they end, with live progress, across restarts of the server."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ampclient._http.retry import RETRYABLE_STATUSES
from ampclient._job.wait import wait_for
from ampclient.errors import AmpcoreError, ConnectionFailed

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
    ) as display:
        outages = _Outages(display)
        return list(wait_for(jobs, on_progress=outages.show, on_outage=outages.next_delay_s))


def is_temporary(error: AmpcoreError) -> bool:
    """Whether the same request may succeed later."""
    return isinstance(error, ConnectionFailed) or error.status in RETRYABLE_STATUSES


class _Outages:
    """Shows jobs, and that the server does not respond."""

    def __init__(self, display: "ProgressDisplay") -> None:
        self._display = display
        self._unavailable_since_s: float | None = None

    def show(self, job: "Job") -> None:
        """Show a job: the server responds."""
        self._unavailable_since_s = None
        self._display(job)

    def next_delay_s(self, error: AmpcoreError) -> float:
        """Seconds until the next try. Raises the error if that will not help, or after too long."""
        self._unavailable_since_s = self._unavailable_since_s or time.monotonic()
        if (
            not is_temporary(error)
            or time.monotonic() - self._unavailable_since_s > SERVER_TIMEOUT_S
        ):
            raise error
        self._display.server_unavailable(str(error))
        return RETRY_INTERVAL_S


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
