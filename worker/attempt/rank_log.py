"""The output of a rank in the log of its job: whole lines, each with the number of the rank."""

from collections.abc import Sequence
from typing import Final

from store.telemetry.ingest import LogChunk
from worker.trainer.log_capture import STDERR, STDOUT

MAX_LINE: Final = 2**14
"""A line is split after this many characters."""


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
