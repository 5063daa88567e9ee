"""The event stream of a job as Server-Sent Events (WHATWG HTML, section 9.2)."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Final

import orjson
from sqlalchemy.orm import Session

from ampspec.api.job.events import JobEvent
from ampspec.api.job.logs import LogEntry
from server.http.streaming.follow import Feed, Read
from server.row_models import from_row
from server.telemetry.step_table import table_of_steps
from server.telemetry.text_formats import json_columns
from store.tables import EventRow, LogRow
from store.telemetry.event_stream import StepsEntry, StreamEntry

MEDIA_TYPE: Final = "text/event-stream"
RETRY_MS: Final = 1000
LAG_ENTRIES: Final = 1000
"""A reader that had caught up and falls this many entries behind gets a `lag` event."""


def encode_as_events(read: Read[StreamEntry]) -> Read[bytes]:
    """A reader of entries that returns encoded events: `steps`, `event`, `state` and `log`.

    Each has its seq as id. They are encoded in the thread that reads them: many steps take long.
    """

    def events(session: Session, after_seq: int, seq: int) -> tuple[Sequence[bytes], int]:
        entries, until = read(session, after_seq, seq)
        return [_encoded(entry) for entry in entries], until

    return events


async def server_sent_events(feed: Feed[bytes]) -> AsyncGenerator[bytes, None]:
    """The encoded events of a stream, with `lag` events, and `end` at the end."""
    yield b"retry: %d\n\n" % RETRY_MS
    was_up_to_date = False
    async for page in feed.pages():
        if was_up_to_date and page.seq - page.until_seq > LAG_ENTRIES:
            yield _event("lag", b'{"behind":%d}' % (page.seq - page.until_seq))
            was_up_to_date = False
        was_up_to_date |= bool(page.items) and page.until_seq >= page.seq
        yield b"".join(page.items) or b": keep-alive\n\n"
    if feed.is_over:
        yield _event("end", orjson.dumps({"state": feed.state}))


def _encoded(entry: StreamEntry) -> bytes:
    match entry:
        case StepsEntry():
            return _event("steps", b"".join(_steps(entry)), entry.seq)
        case EventRow():
            name = "state" if entry.type == "state" else "event"
            return _event(name, from_row(JobEvent, entry).model_dump_json().encode(), entry.seq)
        case LogRow():
            text = from_row(LogEntry, entry).model_dump_json()
            return _event("log", text.encode(), entry.seq)


def _event(name: str, data: bytes, seq: int | None = None) -> bytes:
    """One event; its data is JSON without line breaks."""
    head = b"" if seq is None else b"id: %d\n" % seq
    return head + b"event: %b\ndata: %b\n\n" % (name.encode(), data)


def _steps(event: StepsEntry) -> Iterator[bytes]:
    block = event.block
    head = {"seq": event.seq, "attempt": event.attempt, "first_step": block.first_step}
    yield orjson.dumps(head)[:-1] + b',"data":{'
    yield from json_columns(table_of_steps(block, block.names))
    yield b"}}"
