"""Server-Sent Events out of the bytes of an answer (WHATWG HTML, section 9.2)."""

from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from dataclasses import dataclass
from typing import Final

MEDIA_TYPE: Final = "text/event-stream"


@dataclass(frozen=True)
class ServerSentEvent:
    """One event: its name, and its data as UTF-8."""

    event: str
    data: bytes


async def parse_events(chunks: AsyncIterable[bytes]) -> AsyncGenerator[ServerSentEvent, None]:
    """The whole events; one that is cut off is none, and comes again in the next stream."""
    lines: list[bytes] = []
    rest: list[bytes] = []
    async for chunk in chunks:
        first, *more = chunk.split(b"\n")
        rest.append(first)
        for line in more:
            whole = b"".join(rest).removesuffix(b"\r")
            rest = [line]
            if whole:
                lines.append(whole)
                continue
            if (message := _message(lines)) is not None:
                yield message
            lines = []


def _message(lines: Sequence[bytes]) -> ServerSentEvent | None:
    """What the lines of an event say; None for comments alone."""
    fields: dict[bytes, list[bytes]] = {}
    for line in lines:
        name, _, value = line.partition(b":")
        fields.setdefault(name, []).append(value.removeprefix(b" "))
    if b"data" not in fields:
        return None
    event = fields.get(b"event", [b"message"])[-1]
    return ServerSentEvent(event.decode("utf-8", "replace"), b"\n".join(fields[b"data"]))
