"""Reads the event stream of a job: each entry once, across reconnects and server restarts.

Server-Sent Events: WHATWG HTML, section 9.2. A reconnect sends the id of the last entry.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from ampclient import _endpoints as endpoints
from ampclient._http.backend import StreamedResponse
from ampclient._http.responses import unexpected_response
from ampclient._http.retry import POLLING_RETRY_TIMEOUT_S, RetryState
from ampclient._http.transport import Transport
from ampclient.errors import ConnectionFailed, NotFound, StatusError, UnexpectedResponse
from ampspec.api.job.events import JobEvent
from ampspec.api.job.logs import LogEntry

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

    from ampclient._telemetry.stream_events import StepsEvent

    StreamEntry = StepsEvent | JobEvent | LogEntry

MEDIA_TYPE: Final = "text/event-stream"
RECONNECT_DELAY_S: Final = 0.5
"""Delay between two streams, to limit the load if the server closes each at once."""


class EventStreamReader:
    """Reads the entries after `after_seq`, and continues after the last one read."""

    def __init__(
        self, transport: Transport, job_id: str, query: endpoints.StreamQuery, after_seq: int
    ) -> None:
        self._transport = transport
        self._job_id = job_id
        self._query = query
        self._last_seq = after_seq
        self._has_ended = False

    async def steps(self) -> AsyncGenerator["StepsEvent", None]:
        """The entries that hold steps."""
        from ampclient._telemetry.stream_events import StepsEvent

        async with aclosing(self.read()) as entries:
            async for entry in entries:
                if isinstance(entry, StepsEvent):
                    yield entry

    async def read(self) -> AsyncGenerator["StreamEntry", None]:
        """Every entry as it arrives, until the job has ended.

        Raises NotFound if the job does not exist, UnexpectedResponse for any other stream.
        """
        retries = self._transport.retries(self._request(), POLLING_RETRY_TIMEOUT_S)
        while not self._has_ended:
            next_delay_s = RECONNECT_DELAY_S
            try:
                async with aclosing(self._read_connection(retries)) as entries:
                    async for entry in entries:
                        yield entry
            except (ConnectionFailed, StatusError) as error:
                next_delay_s = max(retries.next_delay_s(error), RECONNECT_DELAY_S)
            # A stream ends with its job, but also where the server shuts down.
            if not self._has_ended:
                await self._transport.sleep(next_delay_s)

    async def _read_connection(self, retries: RetryState) -> AsyncGenerator["StreamEntry", None]:
        """The entries of one connection."""
        async with self._transport.open(self._request()) as response:
            _check(response)
            retries.reset()
            async for message in response.events:
                if message.event == "end":
                    self._end(_document(message))
                    return
                if entry := _entry(message):
                    self._last_seq = entry.seq
                    yield entry
                retries.reset()  # again, since the caller may have kept the entry for long

    def _request(self) -> endpoints.Request:
        return endpoints.stream_job(self._job_id, self._query, after_seq=self._last_seq)

    def _end(self, document: Any) -> None:
        """End the stream. Raises NotFound if it ended because the job was deleted."""
        self._has_ended = True
        if document.get("state") is None:
            raise NotFound(f"Job {self._job_id} was deleted.", code="not_found", status=404)


def _check(response: StreamedResponse) -> None:
    media_type = response.headers.get("content-type", "")
    if not media_type.startswith(MEDIA_TYPE):
        detail = f"Expected {MEDIA_TYPE}, received {media_type or 'nothing'}."
        raise unexpected_response(detail, response.status, response.headers)


def _entry(message: "ServerSentEvent") -> "StreamEntry | None":
    """The entry in a message; None for a kind that only newer servers send."""
    from ampclient._telemetry.stream_events import StepsEvent

    readers: dict[str, Any] = {
        "steps": StepsEvent.from_json,
        "event": JobEvent.from_json,
        "state": JobEvent.from_json,
        "log": LogEntry.from_json,
    }
    if message.event not in readers:
        return None
    try:
        entry: StreamEntry = readers[message.event](_document(message))
    except (KeyError, TypeError, ValueError) as error:
        raise UnexpectedResponse(
            f"Cannot read an event of the job's stream: {message.data[:80]!r} ({error})."
        ) from None
    return entry


def _document(message: "ServerSentEvent") -> Any:
    try:
        return json.loads(message.data)
    except ValueError:
        raise UnexpectedResponse(
            f"Expected a JSON event, received {message.data[:80]!r}."
        ) from None
