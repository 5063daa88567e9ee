"""Follow the event stream of a job until the job has ended and everything is sent."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import anyio
from sqlalchemy.orm import Session

from ampspec.jobs import TERMINAL
from server.errors import DATABASE_ERRORS
from server.http.streaming.streams import Streams
from store.database import Database
from store.database_errors import is_outage
from store.jobs import jobs
from store.tables import LogRow
from store.telemetry import event_stream, logs

log = logging.getLogger(__name__)
Item = TypeVar("Item")

PAGE: Final = 64
"""Entries per page: the next page is read once the client has received this one."""
BATCH_DELAY_S: Final = 0.05
"""The pause after a notification: entries of about the same time go into one page."""
MIN_POLL_S: Final = 0.4
MAX_POLL_S: Final = 2.0
"""The polling interval without notifications; it grows while the job writes nothing."""
HEARTBEAT_S: Final = 10.0
"""The interval of heartbeats in a stream without entries."""

Read = Callable[[Session, int, int], tuple[Sequence[Item], int]]
"""Reads the entries after a seq, up to the job's own; returns them, and how far they go."""


@dataclass(frozen=True)
class FollowQuery:
    """The job to follow, the seq after which to start, and whether to wait for new entries.

    `owner` is the token that follows it: readers are shared by token.
    """

    job_id: str
    after_seq: int
    follow: bool
    owner: str


@dataclass(frozen=True)
class StreamPage(Generic[Item]):
    """Some entries of the stream, up to seq `until_seq`; `seq` is the job's last."""

    items: Sequence[Item]
    until_seq: int
    seq: int


class Feed(Generic[Item]):
    """Reads the event stream of one job for one client; holds no session between two reads.

    `state` is the state of the job at the last read, None if it is deleted; `is_over` means that
    everything is read and nothing more can come.
    """

    def __init__(
        self,
        database: Database,
        streams: Streams,
        query: FollowQuery,
        read: Read[Item],
    ) -> None:
        self.state: str | None = None
        self.is_over = False
        self._database, self._streams, self._query = database, streams, query
        self._read = read
        self._after_seq = query.after_seq
        self._seq = -1
        self._subscription = asyncio.Event()
        self._is_stopped = False

    async def pages(self) -> AsyncGenerator[StreamPage[Item], None]:
        """The pages in order; an empty page is a heartbeat."""
        pause_s, next_heartbeat = MIN_POLL_S, anyio.current_time() + HEARTBEAT_S
        with self._streams.subscriptions.subscribe(self._query.job_id) as self._subscription:
            while not (self._is_stopped or self._is_shutting_down):
                if anyio.current_time() > next_heartbeat:
                    next_heartbeat = anyio.current_time() + HEARTBEAT_S
                    yield StreamPage((), self._after_seq, self._seq)
                self._subscription.clear()
                page = await self._read_page_or_wait()
                if page is not None:
                    self._after_seq = page.until_seq
                    if page.items:
                        yield page
                        pause_s = MIN_POLL_S
                        continue
                    if self.is_over:
                        return
                with anyio.move_on_after(pause_s):
                    await self._streams.wait_for_update_or_shutdown(self._subscription)
                    await anyio.sleep(BATCH_DELAY_S)
                pause_s = min(1.5 * pause_s, MAX_POLL_S)

    def stop(self) -> None:
        """End the stream: the client is no longer authorized."""
        self._is_stopped = True
        self._subscription.set()

    @property
    def _is_shutting_down(self) -> bool:
        return self._query.follow and self._streams.shutting_down.is_set()

    async def _read_page_or_wait(self) -> StreamPage[Item] | None:
        """The next page; None while the database is unavailable, which does not end the stream."""
        try:
            return await self._streams.readers.run(self._query.owner, self._poll)
        except DATABASE_ERRORS as error:
            if not self._query.follow or not is_outage(error):
                raise
            log.warning("the database is unavailable; the stream waits for it: %s", error)
            return None

    def _poll(self) -> StreamPage[Item]:
        with self._database.read() as session:
            # One snapshot: if it sees the end of the job, it sees all entries before it.
            seq_and_state = jobs.seq_and_state(session, self._query.job_id)
            seq, self.state = seq_and_state or (self._seq, None)
            if seq == self._seq:
                page: StreamPage[Item] = StreamPage((), self._after_seq, seq)
            else:
                items, until_seq = self._read(session, self._after_seq, seq)
                page = StreamPage(items, until_seq, seq)
        if page.until_seq >= seq or not page.items:
            self._seq = seq
        ended = not self._query.follow or self.state is None or self.state in TERMINAL
        self.is_over = ended and not page.items and self._seq == seq
        return page


def log_pages(job_id: str, attempt: int | None) -> Read[LogRow]:
    """Reads log chunks, of one attempt or all."""

    def read(session: Session, after_seq: int, _seq: int) -> tuple[Sequence[LogRow], int]:
        rows = logs.read(session, job_id, after_seq=after_seq, limit=PAGE, attempt=attempt)
        return rows, rows[-1].seq if rows else after_seq

    return read


def stream_pages(
    job_id: str, kinds: Sequence[event_stream.StreamKind], columns: Sequence[str] | None
) -> Read[event_stream.StreamEntry]:
    """Reads entries of these kinds."""

    def read(
        session: Session, after_seq: int, seq: int
    ) -> tuple[Sequence[event_stream.StreamEntry], int]:
        return event_stream.read(
            session, job_id, after_seq=after_seq, until=seq, kinds=kinds, columns=columns
        )

    return read
