"""The requests of one tracked run, from any thread."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ampclient import _endpoints as endpoints
from ampclient._http.operations import run_sync
from ampclient._http.transport import Transport
from ampclient._job.view import JobView
from ampclient.errors import AmpcoreError
from ampspec.api.runs import RunStatus
from ampspec.jobs.states import State

UPLOAD_TIMEOUT_S: Final = 10.0
"""Seconds without a byte from the server until an upload fails; it is sent again later."""


class RunApi:
    """Sends requests about a run by a synchronous client."""

    def __init__(self, transport: Transport, run_id: str) -> None:
        self._transport, self._run_id = transport, run_id

    def upload(
        self, first_entry: int, entries: Sequence[Mapping[str, Any]], total_steps: int | None
    ) -> RunStatus:
        """Send entries once; the caller repeats it."""
        request = endpoints.upload_entries(self._run_id, first_entry, entries, total_steps)
        sending = self._transport.send(request, retry_timeout_s=0.0, timeout_s=UPLOAD_TIMEOUT_S)
        return run_sync(sending)

    def finish(self, end: Mapping[str, Any]) -> JobView:
        """End the run."""
        return run_sync(self._transport.send(endpoints.finish_run(self._run_id, end)))

    def is_cancelled(self) -> bool:
        """Whether the run was cancelled; False if that cannot be found out."""
        try:
            view = run_sync(self._transport.send(endpoints.get_job(self._run_id)))
        except AmpcoreError:
            return False
        return view.state is State.CANCELLED
