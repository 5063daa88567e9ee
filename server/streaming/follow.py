"""Read on in what a job's processes print, until the job has ended and all of it is told."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.to_thread

from ampcore.spec import TERMINAL
from server.errors import DATABASE_ERRORS, TooManyRequests
from server.streaming.streams import Streams
from store import jobs, logs
from store.database import Database
from store.tables import LogRow

log = logging.getLogger(__name__)

PAGE: Final = 64
"""Pieces in memory at one time: the next ones are read once the client has taken these."""
SHORTEST_S: Final = 0.4
LONGEST_S: Final = 2.0
"""The pause between two looks at a job, the longer the longer it is silent."""
CHECK_S: Final = 10.0
"""How often it is asked whether the client may still read this."""


@dataclass(frozen=True)
class Wanted:
    """What of a job's log is to be told: pieces with a seq above `after`, of one attempt or all."""

    job_id: str
    after: int
    attempt: int | None
    follow: bool


@dataclass(frozen=True)
class _Look:
    """What was found: some pieces, the job's seq before that, and whether nothing more can come."""

    rows: Sequence[LogRow]
    seq: int
    over: bool


class Feed:
    """One reader of one job's log. It holds nothing of the database between two looks."""

    def __init__(
        self,
        database: Database,
        streams: Streams,
        wanted: Wanted,
        allowed: Callable[[], Awaitable[bool]],
    ) -> None:
        self._database = database
        self._streams = streams
        self._wanted = wanted
        self._allowed = allowed
        self._after = wanted.after
        self._seq = -1

    async def pages(self) -> AsyncGenerator[Sequence[LogRow], None]:
        """Pieces in their order; none, now and then, while the job is silent."""
        pause_s, next_check = SHORTEST_S, anyio.current_time() + CHECK_S
        while not (self._wanted.follow and self._streams.ending.is_set()):
            look = await self._look_again()
            if look is not None and look.rows:
                yield look.rows
                self._after, pause_s = look.rows[-1].seq, SHORTEST_S
                continue
            if look is not None and look.over:
                return
            if anyio.current_time() > next_check:
                if not await self._still_allowed():
                    return
                next_check = anyio.current_time() + CHECK_S
                yield ()
            with anyio.move_on_after(pause_s):
                await self._streams.ending.wait()
            pause_s = min(1.5 * pause_s, LONGEST_S)

    async def _look_again(self) -> _Look | None:
        """What there is now; None while the database is away, which ends no stream."""
        try:
            look = await anyio.to_thread.run_sync(self._look, limiter=self._streams.readers)
        except DATABASE_ERRORS as error:
            if not self._wanted.follow:
                raise
            log.warning("the database is away; the stream waits for it: %s", error)
            return None
        if not look.rows:
            self._seq = look.seq
        return look

    def _look(self) -> _Look:
        wanted = self._wanted
        with self._database.read() as session:
            # The job first: whatever it had printed when it ended is found afterwards.
            seq, state = jobs.seq_and_state(session, wanted.job_id) or (self._seq, None)
            over = not wanted.follow or state is None or state in TERMINAL
            if seq == self._seq:
                return _Look((), seq, over)
            rows = logs.read(
                session, wanted.job_id, after=self._after, limit=PAGE, attempt=wanted.attempt
            )
        return _Look(rows, seq, over)

    async def _still_allowed(self) -> bool:
        try:
            return await self._allowed()
        except TooManyRequests:
            return False
        except DATABASE_ERRORS:
            return True  # asked again when it is back
