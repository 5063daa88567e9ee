"""Captures a trainer's stdout and stderr as chunks of text for the job's log."""

import codecs
import time
from typing import Final

from store.telemetry.ingest import LogChunk

STDOUT: Final = "stdout"
STDERR: Final = "stderr"

FLUSH_INTERVAL_S: Final = 0.25
"""The shortest time between two flushes of collected text."""
CHUNK_BYTES: Final = 64 * 2**10
LIMIT_BYTES: Final = 8 * 2**20
"""The most log text of one attempt; the rest is discarded."""
TAIL_CHARACTERS: Final = 4096
LINE_CHARACTERS: Final = 500


class LogCapture:
    """Collects the text of both streams in order of arrival, in chunks of bounded size.

    Chunks never split a character, wherever a read from the pipe ended.
    """

    def __init__(
        self, *, limit_bytes: int = LIMIT_BYTES, flush_interval_s: float = FLUSH_INTERVAL_S
    ) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {stream: decoder("replace") for stream in (STDOUT, STDERR)}
        self._limit_bytes = self._remaining_bytes = limit_bytes
        self._flush_interval_s = flush_interval_s
        self._taken_at = -flush_interval_s
        self._pending: list[LogChunk] = []
        self._tail = ""

    def feed(self, stream: str, data: bytes) -> None:
        """Add bytes read from a pipe; empty bytes mean that the pipe has ended."""
        text = self._decoders[stream].decode(data, final=not data)
        self._tail = (self._tail + text)[-TAIL_CHARACTERS:]
        if text and self._remaining_bytes > 0:
            self._append(stream, text.encode())

    def take(self, *, now: bool = False) -> list[LogChunk]:
        """The collected chunks; none within `flush_interval_s` of the last flush unless `now`."""
        if not self._pending or not (
            now or time.monotonic() - self._taken_at >= self._flush_interval_s
        ):
            return []
        self._taken_at = time.monotonic()
        chunks, self._pending = self._pending, []
        return chunks

    def last_line(self) -> str:
        """The last line that is not blank, for an error message."""
        lines = (line.strip() for line in reversed(self._tail.splitlines()))
        return next((line for line in lines if line), "")[-LINE_CHARACTERS:]

    @property
    def tail(self) -> str:
        """The end of the text, for the reason of a crash."""
        return self._tail

    def _append(self, stream: str, data: bytes) -> None:
        content, self._remaining_bytes = (
            data[: self._remaining_bytes],
            self._remaining_bytes - len(data),
        )
        last = self._pending[-1] if self._pending else None
        if last is not None and last.stream == stream:
            self._pending.pop()
            content = last.text.encode() + content
        self._pending += [LogChunk(stream, text) for text in _split_utf8(content)]
        if self._remaining_bytes <= 0:
            notice = (
                f"[The job printed more than {self._limit_bytes:,} bytes; the rest is discarded.]"
            )
            self._pending.append(LogChunk(STDERR, f"\n{notice}\n"))


def _split_utf8(data: bytes) -> list[str]:
    """Decode UTF-8 in pieces of at most CHUNK_BYTES; an incomplete last character is dropped."""
    texts = []
    while data:
        piece = data[:CHUNK_BYTES]
        text = piece.decode(errors="ignore")
        texts.append(text)
        # A character cut at the end of a piece moves to the next one.
        data = data[len(text.encode()) :] if len(data) > CHUNK_BYTES else b""
    return [text for text in texts if text]
