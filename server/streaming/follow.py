"""Read on in the story of a job, until it has ended and all of it is told."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import anyio
import anyio.to_thread
from sqlalchemy.orm import Session

from ampcore.spec import TERMINAL
from server.errors import DATABASE_ERRORS
from server.streaming.streams import Streams
from store import jobs, logs, stories
from store.database import Database
from store.database_errors import is_outage
from store.tables import LogRow

log = logging.getLogger(__name__)
Item = TypeVar("Item")

PAGE: Final = 64
"""Pieces in memory at one time: the next ones are read once the client has taken these."""
SOONEST_S: Final = 0.05
"""After a ring: what comes at about the same time is told together."""
SHORTEST_S: Final = 0.4
LONGEST_S: Final = 2.0
"""The pause between two looks at a job where no bell rings, the longer the longer it is silent."""
HEARTBEAT_S: Final = 10.0
"""How often a stream shows that it lives while nothing happens."""

Read = Callable[[Session, int, int], tuple[Sequence[Item], int]]
"""Reads what comes after a seq, of a job that has got as far as another one; and until where."""


@dataclass(frozen=True)
class Wanted:
    """Whose story is to be told, from where on, and whether what comes is to be waited for."""

    job_id: str
    after: int
    follow: bool


@dataclass(frozen=True)
class Page(Generic[Item]):
    """Some of the story; `after` is until where it is told, `seq` how far the job has got."""

    items: Sequence[Item]
    after: int
    seq: int


class Feed(Generic[Item]):
    """One reader of one job's story. It holds nothing of the database between two looks.

    `state` is the job's as it was seen last, None where there is no job any more; `is_over` says
    that all is told and nothing more can come.
    """

    def __init__(
        self,
        database: Database,
        streams: Streams,
        wanted: Wanted,
        read: Read[Item],
    ) -> None:
        self.state: str | None = None
        self.is_over = False
        self._database, self._streams, self._wanted = database, streams, wanted
        self._read = read
        self._after = wanted.after
        self._seq = -1
        self._bell = asyncio.Event()
        self._is_stopped = False

    async def pages(self) -> AsyncGenerator[Page[Item], None]:
        """Pages in their order; an empty one, now and then, shows that the stream lives."""
        pause_s, next_heartbeat = SHORTEST_S, anyio.current_time() + HEARTBEAT_S
        with self._streams.bells.heard(self._wanted.job_id) as self._bell:
            while not (self._is_stopped or self._is_ending):
                if anyio.current_time() > next_heartbeat:
                    next_heartbeat = anyio.current_time() + HEARTBEAT_S
                    yield Page((), self._after, self._seq)
                self._bell.clear()
                page = await self._look_again()
                if page is not None:
                    self._after = page.after
                    if page.items:
                        yield page
                        pause_s = SHORTEST_S
                        continue
                    if self.is_over:
                        return
                with anyio.move_on_after(pause_s):
                    await self._streams.ring_or_end(self._bell)
                    await anyio.sleep(SOONEST_S)
                pause_s = min(1.5 * pause_s, LONGEST_S)

    def stop(self) -> None:
        """Tell nothing more: the client may not read this any longer."""
        self._is_stopped = True
        self._bell.set()

    @property
    def _is_ending(self) -> bool:
        return self._wanted.follow and self._streams.ending.is_set()

    async def _look_again(self) -> Page[Item] | None:
        """What there is now; None while the database is away, which ends no stream."""
        try:
            return await anyio.to_thread.run_sync(self._look, limiter=self._streams.readers)
        except DATABASE_ERRORS as error:
            if not self._wanted.follow or not is_outage(error):
                raise
            log.warning("the database is away; the stream waits for it: %s", error)
            return None

    def _look(self) -> Page[Item]:
        with self._database.read() as session:
            # One moment: whatever was told when the job ended is found here.
            known = jobs.seq_and_state(session, self._wanted.job_id)
            seq, self.state = known or (self._seq, None)
            if seq == self._seq:
                page: Page[Item] = Page((), self._after, seq)
            else:
                items, after = self._read(session, self._after, seq)
                page = Page(items, after, seq)
        if page.after >= seq or not page.items:
            self._seq = seq
        ended = not self._wanted.follow or self.state is None or self.state in TERMINAL
        self.is_over = ended and not page.items and self._seq == seq
        return page


def log_pages(job_id: str, attempt: int | None) -> Read[LogRow]:
    """What was printed, by one attempt or all."""

    def read(session: Session, after: int, _seq: int) -> tuple[Sequence[LogRow], int]:
        rows = logs.read(session, job_id, after=after, limit=PAGE, attempt=attempt)
        return rows, rows[-1].seq if rows else after

    return read


def story_pages(
    job_id: str, kinds: Sequence[stories.Kind], columns: Sequence[str] | None
) -> Read[stories.Entry]:
    """Everything of these kinds that was told."""

    def read(session: Session, after: int, seq: int) -> tuple[Sequence[stories.Entry], int]:
        return stories.read(session, job_id, after=after, until=seq, kinds=kinds, columns=columns)

    return read
