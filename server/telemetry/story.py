"""The story of a job as Server-Sent Events (WHATWG HTML, section 9.2)."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Final

import orjson
from sqlalchemy.orm import Session

from server.streaming.follow import Feed, Read
from server.telemetry.tables import of_steps
from server.telemetry.text import json_columns
from server.views import Event, LogEntry
from store.stories import Entry, StepsTold
from store.tables import EventRow, LogRow

MEDIA_TYPE: Final = "text/event-stream"
RETRY_MS: Final = 1000
LAG: Final = 1000
"""A reader who had heard everything, and falls so many entries behind, is told so."""


def as_events(read: Read[Entry]) -> Read[bytes]:
    """The same, each entry as an event: `steps`, `event`, `state` and `log` with their seq as id.

    They are written where they are read, in a thread: that of many steps takes a while.
    """

    def events(session: Session, after: int, seq: int) -> tuple[Sequence[bytes], int]:
        entries, until = read(session, after, seq)
        return [_encoded(entry) for entry in entries], until

    return events


async def server_sent_events(feed: Feed[bytes]) -> AsyncGenerator[bytes, None]:
    """The events of a story; `lag`; at last `end`."""
    yield b"retry: %d\n\n" % RETRY_MS
    was_up_to_date = False
    async for page in feed.pages():
        if was_up_to_date and page.seq - page.after > LAG:
            yield _event("lag", b'{"behind":%d}' % (page.seq - page.after))
            was_up_to_date = False
        was_up_to_date |= bool(page.items) and page.after >= page.seq
        yield b"".join(page.items) or b": still here\n\n"
    if feed.is_over:
        yield _event("end", orjson.dumps({"state": feed.state}))


def _encoded(entry: Entry) -> bytes:
    match entry:
        case StepsTold():
            return _event("steps", b"".join(_steps(entry)), entry.seq)
        case EventRow():
            name = "state" if entry.type == "state" else "event"
            return _event(name, Event.read(entry).model_dump_json().encode(), entry.seq)
        case LogRow():
            text = LogEntry.read(entry).model_dump_json()
            return _event("log", text.encode(), entry.seq)


def _event(name: str, data: bytes, seq: int | None = None) -> bytes:
    """One event; its data is JSON, which has no line ends."""
    head = b"" if seq is None else b"id: %d\n" % seq
    return head + b"event: %b\ndata: %b\n\n" % (name.encode(), data)


def _steps(told: StepsTold) -> Iterator[bytes]:
    block = told.block
    head = {"seq": told.seq, "attempt": told.attempt, "first_step": block.first_step}
    yield orjson.dumps(head)[:-1] + b',"data":{'
    yield from json_columns(of_steps(block, block.names))
    yield b"}}"
