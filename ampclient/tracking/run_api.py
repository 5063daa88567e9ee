"""The requests of one tracked run, from any thread."""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

from ampclient import _endpoints as endpoints
from ampclient._http.operations import run_sync
from ampclient._http.transport import Transport
from ampclient._job.view import JobView
from ampclient.errors import AmpcoreError
from ampspec.api.base import AnyState
from ampspec.api.runs import RunStatus

UPLOAD_TIMEOUT_S: Final = 10.0
"""Seconds without a byte from the server until an upload fails; it is sent again later."""
ONCE: Final[dict[str, Any]] = {"retry_timeout_s": 0.0, "timeout_s": UPLOAD_TIMEOUT_S}


@dataclass(frozen=True)
class NewRun:
    """A run that is still to be created.

    Attributes:
        spec: The fields of TrackedSpec.
        idempotency_key: So that it is created once.
        on_created: Called with its id.
    """

    spec: Mapping[str, Any]
    idempotency_key: str = field(default_factory=lambda: str(uuid4()))
    on_created: Callable[[str], object] = lambda _: None


class RunApi:
    """Sends requests about a run by a synchronous client.

    Args:
        transport: Of the client.
        run: The id of the run, or what it is created with.
    """

    def __init__(self, transport: Transport, run: str | NewRun) -> None:
        self._transport, self._run = transport, run

    @property
    def run_id(self) -> str | None:
        """The id of the run; None before it is created."""
        return None if isinstance(self._run, NewRun) else self._run

    @property
    def subject(self) -> str:
        """How messages name the run, which has no id before the server was reached."""
        return "the run" if self.run_id is None else f"the run {self.run_id}"

    @property
    def url(self) -> str | None:
        """Its page in the dashboard; None before it is created."""
        run_id = self.run_id
        return None if run_id is None else f"{self._transport.connection.url}/#/jobs/{run_id}"

    def connect(self, *, repeat: bool = False) -> RunStatus:
        """Create the run, or let it go on if it has failed or was cancelled.

        Args:
            repeat: Repeat the request as the client is set; else it is sent once.
        """
        options: dict[str, Any] = {} if repeat else {"retry_timeout_s": 0.0}
        if isinstance(self._run, NewRun):
            new_run = self._run
            request = endpoints.create_run(new_run.spec, new_run.idempotency_key)
            view = run_sync(self._transport.send(request, **options))
            new_run.on_created(view.id)
            self._run = view.id
            return RunStatus(entries=0, step=0, state=view.state, requested=None)
        return run_sync(self._transport.send(endpoints.resume_run(self._run), **options))

    @property
    def _created_id(self) -> str:
        if isinstance(self._run, NewRun):
            raise TypeError("the run is not created yet")
        return self._run

    def upload(
        self,
        first_entry: int,
        entries: Sequence[Mapping[str, Any]],
        total_steps: int | None,
        *,
        repeat: bool = False,
    ) -> RunStatus:
        """Send entries; once, unless it is to be repeated as the client is set."""
        if entries and entries[0]["type"] == "image":
            if total_steps is not None:
                self.upload(first_entry, [], total_steps, repeat=repeat)
            return self._upload_image(first_entry, entries[0])
        request = endpoints.upload_entries(self._created_id, first_entry, entries, total_steps)
        options: dict[str, Any] = {} if repeat else ONCE
        return run_sync(self._transport.send(request, **options))

    def _upload_image(self, entry: int, image: Mapping[str, Any]) -> RunStatus:
        content = base64.b64decode(image["content"])
        request = endpoints.put_image(self._created_id, entry, image, len(content))
        pieces = iter([content])
        return run_sync(self._transport.send_content(request, pieces, timeout_s=UPLOAD_TIMEOUT_S))

    def finish(self, end: Mapping[str, Any]) -> JobView:
        """End the run."""
        return run_sync(self._transport.send(endpoints.finish_run(self._created_id, end)))

    def state(self) -> AnyState | None:
        """The state of the run; None if that cannot be found out."""
        try:
            view = run_sync(self._transport.send(endpoints.get_job(self._created_id)))
        except AmpcoreError:
            return None
        return view.state
