"""Read the story of a job: each entry once, over connections that break and servers that restart.

Server-Sent Events: WHATWG HTML, section 9.2. Whoever comes again says what it heard last.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from ampclient import calls
from ampclient.answers import unexpected
from ampclient.errors import ConnectionFailed, NotFound, StatusError, UnexpectedAnswer
from ampclient.retry import POLLING_PATIENCE_S, Attempts
from ampclient.sse import MEDIA_TYPE, Message, messages_in
from ampclient.transport import Answer, Transport
from ampclient.views import JobEvent, LogEntry

if TYPE_CHECKING:
    from ampclient.told import StepsTold

    Entry = StepsTold | JobEvent | LogEntry

PAUSE_S: Final = 0.5
"""Between two streams, so that a server which closes each at once is not flooded."""


class StoryReader:
    """Reads on from where it stopped: behind the entry whose seq is `after`."""

    def __init__(self, transport: Transport, job_id: str, wanted: calls.Story, after: int) -> None:
        self._transport = transport
        self._job_id = job_id
        self._wanted = wanted
        self._after = after
        self._is_over = False

    async def steps(self) -> AsyncGenerator["StepsTold", None]:
        """The steps among the entries."""
        from ampclient.told import StepsTold

        async with aclosing(self.read()) as entries:
            async for entry in entries:
                if isinstance(entry, StepsTold):
                    yield entry

    async def read(self) -> AsyncGenerator["Entry", None]:
        """Every entry as it comes, until the job has ended.

        Raises NotFound where the job is gone, UnexpectedAnswer for what is no story.
        """
        attempts = Attempts(self._request(), POLLING_PATIENCE_S)
        while not self._is_over:
            delay_s = PAUSE_S
            try:
                async with aclosing(self._opened(attempts)) as entries:
                    async for entry in entries:
                        yield entry
            except (ConnectionFailed, StatusError) as error:
                delay_s = max(attempts.delay_s(error), PAUSE_S)
            # A stream ends with its job, but also where the server shuts down.
            if not self._is_over:
                await self._transport.sleep(delay_s)

    async def _opened(self, attempts: Attempts) -> AsyncGenerator["Entry", None]:
        """The entries of one stream, as far as it goes."""
        async with self._transport.open(self._request()) as answer:
            _check(answer)
            attempts.begin_anew()
            async for message in messages_in(answer.pieces):
                if message.event == "end":
                    self._end(_document(message))
                    return
                if entry := _entry(message):
                    self._after = entry.seq
                    yield entry
                attempts.begin_anew()  # now, since whoever took the entry may have kept it for long

    def _request(self) -> calls.Request:
        return calls.follow_story(self._job_id, self._wanted, after=self._after)

    def _end(self, document: Any) -> None:
        """All is told. Raises NotFound where that is so because the job was deleted."""
        self._is_over = True
        if document.get("state") is None:
            raise NotFound(f"The job {self._job_id} was deleted.", code="not_found", status=404)


def _check(answer: Answer) -> None:
    media_type = answer.headers.get("content-type", "")
    if not media_type.startswith(MEDIA_TYPE):
        detail = f"Expected {MEDIA_TYPE}, received {media_type or 'nothing'}."
        raise unexpected(detail, answer.status, answer.headers)


def _entry(message: Message) -> "Entry | None":
    """What a message tells; None for what a newer server may tell besides."""
    from ampclient.told import StepsTold

    readers: dict[str, Any] = {
        "steps": StepsTold.from_json,
        "event": JobEvent.from_json,
        "state": JobEvent.from_json,
        "log": LogEntry.from_json,
    }
    if message.event not in readers:
        return None
    try:
        entry: Entry = readers[message.event](_document(message))
    except (KeyError, TypeError, ValueError) as error:
        raise UnexpectedAnswer(
            f"Expected an entry of a job's story, received {message.data[:80]!r} ({error})."
        ) from None
    return entry


def _document(message: Message) -> Any:
    try:
        return json.loads(message.data)
    except ValueError:
        raise UnexpectedAnswer(
            f"Expected an event with a JSON document, received {message.data[:80]!r}."
        ) from None
