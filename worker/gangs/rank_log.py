"""The output of a rank in the log of its job: whole lines, each with the number of the rank."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from store.database import Database
from store.database_errors import is_outage
from store.telemetry.ingest import LogChunk
from worker.trainer.log_capture import STDERR, STDOUT

log = logging.getLogger(__name__)

MAX_LINE: Final = 2**14
"""A line is split after this many characters."""
RETRY_S: Final = 5.0
"""Between two attempts to store lines during an outage: a thread reads all ranks."""


class RankLog:
    """Names the rank in front of each line; the logs of all ranks are one log."""

    def __init__(self, rank: int) -> None:
        self._prefix = f"[rank {rank}] "
        self._line_starts = {STDOUT: "", STDERR: ""}

    def lines(self, chunks: Sequence[LogChunk], *, at_end: bool = False) -> list[LogChunk]:
        """The complete lines of these and earlier chunks; at the end also the incomplete ones."""
        complete_lines = []
        for chunk in chunks:
            text = self._line_starts[chunk.stream] + chunk.text
            complete, newline, line_start = text.rpartition("\n")
            if len(line_start) > MAX_LINE:
                complete, newline, line_start = text, "\n", ""
            self._line_starts[chunk.stream] = line_start
            if complete or newline:
                complete_lines.append(LogChunk(chunk.stream, self._prefixed(complete)))
        for stream, line_start in self._line_starts.items() if at_end else ():
            if line_start:
                complete_lines.append(LogChunk(stream, self._prefixed(line_start)))
        return complete_lines

    def _prefixed(self, text: str) -> str:
        return "".join(f"{self._prefix}{line}\n" for line in text.split("\n"))


class UnstoredLines:
    """The lines of ranks until the database has them; the log capture limits how many there are.

    Args:
        append: Stores lines in a transaction.
        clock: The time in seconds.
    """

    def __init__(
        self,
        append: Callable[[Session, Sequence[LogChunk]], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._append, self._clock = append, clock
        self._lines: list[LogChunk] = []
        self._retry_at = 0.0

    def add(self, lines: Sequence[LogChunk]) -> None:
        """Keep lines."""
        self._lines += lines

    def store(self, database: Database) -> None:
        """Store the lines, unless the database was just unavailable; they are kept then."""
        if not self._lines or self._clock() < self._retry_at:
            return
        try:
            with database.write() as session:
                self.store_in(session)
        except SQLAlchemyError as error:
            if is_outage(error):
                self._retry_at = self._clock() + RETRY_S
                log.warning("cannot store the log of the ranks yet: %s", error)
                return
            log.exception("cannot store the log of the ranks; %d lines are lost", len(self._lines))
        self._lines = []

    def store_in(self, session: Session) -> None:
        """Store the lines in a transaction, which may be repeated."""
        if self._lines:
            self._append(session, self._lines)
