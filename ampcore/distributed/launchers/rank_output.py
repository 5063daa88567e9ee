"""Prefixes what a rank prints with its number, because launchers mix the output of all ranks."""

import sys
from collections.abc import Iterable
from typing import Any, TextIO


class RankPrefix:
    """A text stream that writes `rank N: ` before each line; else it is the stream itself.

    Args:
        stream: Where the lines go.
        rank: The number of this rank.
    """

    def __init__(self, stream: TextIO, rank: int) -> None:
        self._stream, self.rank = stream, rank
        self._prefix = f"rank {rank}: "
        self._is_line_open = False

    def write(self, text: str) -> int:
        """Write text; a line that is not complete yet is continued by the next call."""
        prefixed = []
        for line in text.splitlines(keepends=True):
            prefixed.append(line if self._is_line_open else self._prefix + line)
            self._is_line_open = not line.endswith(("\n", "\r"))
        self._stream.write("".join(prefixed))  # at once, so that no other rank writes in between
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def prefix_output(rank: int) -> None:
    """Prefix what this process prints from now on; rank 0 prints for the program.

    What libraries in C write directly to the descriptors has no prefix.
    """
    if rank > 0:
        sys.stdout = RankPrefix(sys.stdout, rank)
        sys.stderr = RankPrefix(sys.stderr, rank)


def with_prefix_of(stream: TextIO, replacement: TextIO) -> TextIO:
    """The replacement of a stream, with the same prefix if the stream has one."""
    if isinstance(stream, RankPrefix):
        return RankPrefix(replacement, stream.rank)  # type: ignore[return-value]
    return replacement
