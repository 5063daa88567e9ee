"""Reads the log of a job: each entry exactly once, in order."""

import json
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from contextlib import aclosing
from typing import Final

from ampclient import _endpoints as endpoints
from ampclient._http.retry import POLLING_RETRY_TIMEOUT_S, RETRY_TIMEOUT_S, RetryState
from ampclient._http.transport import Transport
from ampclient.errors import ConnectionFailed, StatusError, UnexpectedResponse
from ampspec.api.job.logs import LogEntry

RECONNECT_DELAY_S: Final = 0.5
"""Delay between two streams, to limit the load if the server closes each at once."""


class LogReader:
    """Reads the entries after `after_seq`, and continues after the last one read."""

    def __init__(
        self, transport: Transport, job_id: str, *, after_seq: int | None, attempt: int | None
    ) -> None:
        self._transport = transport
        self._job_id = job_id
        self._last_seq = after_seq
        self._attempt = attempt

    async def read(
        self, *, retry_timeout_s: float = RETRY_TIMEOUT_S
    ) -> AsyncGenerator[LogEntry, None]:
        """The stored entries that were not read before."""
        more = True
        while more:
            request = endpoints.get_logs(
                self._job_id, after_seq=self._last_seq, attempt=self._attempt
            )
            page = await self._transport.send(request, retry_timeout_s=retry_timeout_s)
            more = page.more and bool(page.items)
            for entry in page.items:
                yield self._advance(entry)

    async def follow(
        self, has_ended: Callable[[], Awaitable[bool]]
    ) -> AsyncGenerator[LogEntry, None]:
        """Every entry as it arrives, across server restarts, until the job has ended."""
        retries = self._transport.retries(self._stream(), POLLING_RETRY_TIMEOUT_S)
        while True:
            try:
                async with aclosing(self._read_connection(retries)) as entries:
                    async for entry in entries:
                        yield entry
            except (ConnectionFailed, StatusError) as error:
                await self._transport.sleep(max(retries.next_delay_s(error), RECONNECT_DELAY_S))
                continue
            # A stream ends with its job, but also where the server shuts down.
            if await has_ended():
                async for entry in self.read(retry_timeout_s=POLLING_RETRY_TIMEOUT_S):
                    yield entry
                return
            await self._transport.sleep(RECONNECT_DELAY_S)

    async def _read_connection(self, retries: RetryState) -> AsyncGenerator[LogEntry, None]:
        """The entries of one connection."""
        request = self._stream()
        async with self._transport.open(request) as response:
            retries.reset()
            async for line in _lines(response.chunks):
                if line:  # an empty line is a keep-alive
                    yield self._advance(request.read(_document(line)))
                retries.reset()  # again, since the caller may have kept the entry for long

    def _stream(self) -> endpoints.JsonRequest[LogEntry]:
        return endpoints.follow_logs(self._job_id, after_seq=self._last_seq, attempt=self._attempt)

    def _advance(self, entry: LogEntry) -> LogEntry:
        self._last_seq = entry.seq
        return entry


async def _lines(chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """The complete lines; one that is cut off comes again in the next stream."""
    # Not by iter_lines, which also splits at characters such as U+2028 inside a log entry.
    incomplete = b""
    async for chunk in chunks:
        *lines, incomplete = (incomplete + chunk).split(b"\n")
        for line in lines:
            yield line


def _document(line: bytes) -> object:
    try:
        return json.loads(line)
    except ValueError:
        raise UnexpectedResponse(
            f"Expected one JSON document per line, received {line[:80]!r}."
        ) from None
