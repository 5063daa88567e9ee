"""The output of a rank in the log of its job: whole lines, each with the number of the rank."""

from collections.abc import Sequence
from typing import Final

from store.ingest import LogChunk
from worker.log_capture import STDERR, STDOUT

MAX_LINE: Final = 2**14
"""A line is split after this many characters."""


class RankLog:
    """Names the rank in front of each line; the logs of all ranks are one log."""

    def __init__(self, rank: int) -> None:
        self._prefix = f"[rank {rank}] "
        self._rest = {STDOUT: "", STDERR: ""}

    def lines(self, chunks: Sequence[LogChunk], *, at_end: bool = False) -> list[LogChunk]:
        """The complete lines of these and earlier chunks; at the end also the incomplete ones."""
        found = []
        for chunk in chunks:
            text = self._rest[chunk.stream] + chunk.text
            complete, newline, rest = text.rpartition("\n")
            if len(rest) > MAX_LINE:
                complete, newline, rest = text, "\n", ""
            self._rest[chunk.stream] = rest
            if complete or newline:
                found.append(LogChunk(chunk.stream, self._prefixed(complete)))
        for stream, rest in self._rest.items() if at_end else ():
            if rest:
                found.append(LogChunk(stream, self._prefixed(rest)))
        return found

    def _prefixed(self, text: str) -> str:
        return "".join(f"{self._prefix}{line}\n" for line in text.split("\n"))
