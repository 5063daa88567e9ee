"""Follows the event stream of a job: its history, then live entries."""

from collections.abc import AsyncGenerator, Collection, Sequence
from typing import TYPE_CHECKING

from ampclient import requests
from ampclient._sync_async import iterator
from ampclient.event_stream import EventStreamReader
from ampclient.job_steps import JobSteps

if TYPE_CHECKING:
    from ampclient.event_stream import StreamEntry
    from ampclient.stream_events import StepsEvent


class JobStream(JobSteps):
    """A view of a job with the operations that follow its event stream."""

    @iterator
    def stream(
        self, *, after: int = 0, columns: Sequence[str] | None = None
    ) -> AsyncGenerator["StepsEvent", None]:
        """The step blocks of the event stream, until the job has ended.

        First the stored blocks, then live ones; each once, across reconnects and server restarts. A
        step that a later attempt repeats is returned again: `block.attempt` is its attempt. To
        continue, pass the `seq` of the last block as `after`. `columns` selects the columns,
        besides `skipped`. Raises NotFound if the job is deleted meanwhile.
        """
        wanted = requests.StreamQuery(("steps",), columns)
        return EventStreamReader(self._transport, self.id, wanted, after).steps()

    @iterator
    def follow(
        self,
        *,
        kinds: Collection[str] = requests.STREAM_KINDS,
        after: int = 0,
        columns: Sequence[str] | None = None,
    ) -> AsyncGenerator["StreamEntry", None]:
        """All entries of the event stream in order, until the job has ended; see `stream`.

        The `kinds` are steps (blocks as from `stream`), events (JobEvent; a state change has the
        type "state") and logs (LogEntry). Every entry has a `seq` and an `attempt`.
        """
        wanted = requests.StreamQuery(tuple(kinds), columns)
        return EventStreamReader(self._transport, self.id, wanted, after).read()
