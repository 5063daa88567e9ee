"""Read what a job's processes print: entry after entry, without a gap and without a repeat."""

import json
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from contextlib import aclosing
from typing import Final

from ampclient import calls
from ampclient.errors import ConnectionFailed, StatusError, UnexpectedAnswer
from ampclient.retry import PATIENCE_S, POLLING_PATIENCE_S, Attempts
from ampclient.transport import Transport
from ampclient.views import LogEntry

PAUSE_S: Final = 0.5
"""Between two streams, so that a server which closes each at once is not flooded."""


class LogReader:
    """Reads on from where it stopped: behind the entry whose seq is `after`."""

    def __init__(
        self, transport: Transport, job_id: str, *, after: int | None, attempt: int | None
    ) -> None:
        self._transport = transport
        self._job_id = job_id
        self._after = after
        self._attempt = attempt

    async def read(self, *, patience_s: float = PATIENCE_S) -> AsyncGenerator[LogEntry, None]:
        """The entries that are stored now and were not read before."""
        more = True
        while more:
            call = calls.get_logs(self._job_id, after=self._after, attempt=self._attempt)
            page = await self._transport.send(call, patience_s=patience_s)
            more = page.more and bool(page.entries)
            for entry in page.entries:
                yield self._advance(entry)

    async def follow(
        self, has_ended: Callable[[], Awaitable[bool]]
    ) -> AsyncGenerator[LogEntry, None]:
        """Every entry as it comes, over restarts of the server, until the job has ended."""
        attempts = Attempts(self._stream(), POLLING_PATIENCE_S)
        while True:
            try:
                async with aclosing(self._opened(attempts)) as entries:
                    async for entry in entries:
                        yield entry
            except (ConnectionFailed, StatusError) as error:
                await self._transport.sleep(max(attempts.delay_s(error), PAUSE_S))
                continue
            # A stream ends with its job, but also where the server shuts down.
            if await has_ended():
                async for entry in self.read(patience_s=POLLING_PATIENCE_S):
                    yield entry
                return
            await self._transport.sleep(PAUSE_S)

    async def _opened(self, attempts: Attempts) -> AsyncGenerator[LogEntry, None]:
        """The entries of one stream, as far as it goes."""
        call = self._stream()
        async with self._transport.open(call) as answer:
            attempts.begin_anew()
            async for line in _lines(answer.pieces):
                if line:  # an empty one only says that the connection lives
                    yield self._advance(call.read(_document(line)))
                attempts.begin_anew()  # now, since whoever took the entry may have kept it for long

    def _stream(self) -> calls.Call[LogEntry]:
        return calls.follow_logs(self._job_id, after=self._after, attempt=self._attempt)

    def _advance(self, entry: LogEntry) -> LogEntry:
        self._after = entry.seq
        return entry


async def _lines(pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """The whole lines; one that is cut off comes again in the next stream."""
    # Not by iter_lines, which also takes what was printed, such as U+2028, for an end of a line.
    rest = b""
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line


def _document(line: bytes) -> object:
    try:
        return json.loads(line)
    except ValueError:
        raise UnexpectedAnswer(
            f"Expected a JSON document a line, received {line[:80]!r}."
        ) from None
