"""The story of a job: its steps, or everything about it, from the beginning on and live."""

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
    """A view of a job, which can be followed from there."""

    @iterator
    def stream(
        self, *, after: int = 0, columns: Sequence[str] | None = None
    ) -> AsyncGenerator["StepsEvent", None]:
        """The steps as they were told and are being told, until the job has ended.

        History, then live; each block once, over cut connections and a server that restarts. A
        step that a later attempt does again comes again: `block.attempt` says whose it is. Who
        stopped goes on behind `after`, the `seq` of the last block. Only `columns`, if they are
        given, and `skipped`. Raises NotFound for a job that is deleted meanwhile.
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
        """Everything that is told of the job, in order, until it has ended; else as `stream`.

        Of the `kinds` steps (blocks as `stream` gives them), events (a JobEvent each; that of a
        change of state has the type "state") and logs (a LogEntry each). Every entry has its
        `seq` and its `attempt`.
        """
        wanted = requests.StreamQuery(tuple(kinds), columns)
        return EventStreamReader(self._transport, self.id, wanted, after).read()
