"""Read what a job's processes print: entry after entry, without a gap and without a repeat."""

import json
import time
from collections.abc import Callable, Iterable, Iterator
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

    def read(self, *, patience_s: float = PATIENCE_S) -> Iterator[LogEntry]:
        """The entries that are stored now and were not read before."""
        more = True
        while more:
            call = calls.get_logs(self._job_id, after=self._after, attempt=self._attempt)
            page = self._transport.send(call, patience_s=patience_s)
            more = page.more and bool(page.entries)
            yield from map(self._advance, page.entries)

    def follow(self, has_ended: Callable[[], bool]) -> Iterator[LogEntry]:
        """Every entry as it comes, over restarts of the server, until the job has ended."""
        attempts = Attempts(self._stream(), POLLING_PATIENCE_S)
        while True:
            try:
                yield from self._opened(attempts)
            except (ConnectionFailed, StatusError) as error:
                time.sleep(max(attempts.delay_s(error), PAUSE_S))
                continue
            # A stream ends with its job, but also where the server shuts down.
            if has_ended():
                yield from self.read(patience_s=POLLING_PATIENCE_S)
                return
            time.sleep(PAUSE_S)

    def _opened(self, attempts: Attempts) -> Iterator[LogEntry]:
        """The entries of one stream, as far as it goes."""
        call = self._stream()
        with self._transport.open(call) as response:
            attempts.begin_anew()
            for line in attempts.heard(_lines(response.iter_bytes())):
                if line:  # an empty one only says that the connection lives
                    yield self._advance(call.read(_document(line)))

    def _stream(self) -> calls.Call[LogEntry]:
        return calls.follow_logs(self._job_id, after=self._after, attempt=self._attempt)

    def _advance(self, entry: LogEntry) -> LogEntry:
        self._after = entry.seq
        return entry


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The whole lines; one that is cut off comes again in the next stream."""
    # Not by iter_lines, which also takes what was printed, such as U+2028, for an end of a line.
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines


def _document(line: bytes) -> object:
    try:
        return json.loads(line)
    except ValueError:
        raise UnexpectedAnswer(
            f"Expected a JSON document a line, received {line[:80]!r}."
        ) from None
