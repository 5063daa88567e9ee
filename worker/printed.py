"""What a trainer prints, on its way from two pipes into the job's log."""

import codecs
import time
from typing import Final

from store.ingest import LogChunk

STDOUT: Final = "stdout"
STDERR: Final = "stderr"

EVERY_S: Final = 0.25
"""Text is passed on together, not oftener than this."""
CHUNK_BYTES: Final = 64 * 2**10
LIMIT_BYTES: Final = 8 * 2**20
"""Of one attempt's text; more is dropped."""
TAIL_CHARACTERS: Final = 4096
LINE_CHARACTERS: Final = 500


class Printed:
    """The text of both streams in the order in which it came, in pieces of bounded size.

    Every piece is whole characters, wherever the pipe has cut them.
    """

    def __init__(self, *, limit_bytes: int = LIMIT_BYTES, every_s: float = EVERY_S) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {stream: decoder("replace") for stream in (STDOUT, STDERR)}
        self._limit_bytes = self._room = limit_bytes
        self._every_s = every_s
        self._taken_at = -every_s
        self._waiting: list[LogChunk] = []
        self._tail = ""

    def feed(self, stream: str, data: bytes) -> None:
        """Take what came out of a pipe; nothing when the pipe has ended."""
        text = self._decoders[stream].decode(data, final=not data)
        self._tail = (self._tail + text)[-TAIL_CHARACTERS:]
        if text and self._room > 0:
            self._keep(stream, text.encode())

    def take(self, *, now: bool = False) -> list[LogChunk]:
        """The pieces to pass on; none as long as the last ones were a moment ago."""
        if not self._waiting or not (now or time.monotonic() - self._taken_at >= self._every_s):
            return []
        self._taken_at = time.monotonic()
        waiting, self._waiting = self._waiting, []
        return waiting

    def last_line(self) -> str:
        """The last line that says something, for a message."""
        lines = (line.strip() for line in reversed(self._tail.splitlines()))
        return next((line for line in lines if line), "")[-LINE_CHARACTERS:]

    def _keep(self, stream: str, data: bytes) -> None:
        kept, self._room = data[: self._room], self._room - len(data)
        last = self._waiting[-1] if self._waiting else None
        if last is not None and last.stream == stream:
            self._waiting.pop()
            kept = last.text.encode() + kept
        self._waiting += [LogChunk(stream, text) for text in _cut(kept)]
        if self._room <= 0:
            said = f"[It printed more than {self._limit_bytes:,} bytes: the rest is not kept.]"
            self._waiting.append(LogChunk(STDERR, f"\n{said}\n"))


def _cut(data: bytes) -> list[str]:
    """UTF-8 in pieces of at most CHUNK_BYTES; half a character at the end is dropped."""
    texts = []
    while data:
        piece = data[:CHUNK_BYTES]
        text = piece.decode(errors="ignore")
        texts.append(text)
        # Where a piece ends amid a character, the next one begins with it.
        data = data[len(text.encode()) :] if len(data) > CHUNK_BYTES else b""
    return [text for text in texts if text]
