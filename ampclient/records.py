"""What a job has left on the server: steps, events, attempts, printed text, files."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from ampclient import calls
from ampclient.downloads import Report, chosen, download, place_of
from ampclient.logs import LogReader
from ampclient.retry import POLLING_PATIENCE_S
from ampclient.steps import StepRange, StepReader
from ampclient.transport import Transport
from ampclient.views import Artifact, Attempt, JobEvent, JobView, LogEntry
from ampclient.wait import POLL_S

if TYPE_CHECKING:
    from ampcore.series import StepBlock


@dataclass(frozen=True, kw_only=True)
class JobRecords(JobView):
    """A view of a job, from which its records can be read."""

    _transport: Transport = field(repr=False, compare=False)

    def steps(
        self,
        *,
        start: int | None = None,
        end: int | None = None,
        after: int | None = None,
        columns: Sequence[str] | None = None,
        attempt: int | None = None,
    ) -> "StepBlock":
        """The values of every stored step s with `start` ≤ s < `end` and `after` < s.

        Each step is there once, from the newest attempt that reached it; those that one
        `attempt` reported are there also where a later one went over them again.
        """
        from ampcore.series import StepBlock

        wanted = StepRange(start, end, after, columns, attempt)
        blocks = list(StepReader(self._transport, self.id, wanted).read())
        return StepBlock.concat(blocks) if blocks else wanted.empty()

    def iter_steps(
        self,
        *,
        start: int | None = None,
        end: int | None = None,
        after: int | None = None,
        columns: Sequence[str] | None = None,
        attempt: int | None = None,
    ) -> Iterator["StepBlock"]:
        """The same steps block by block, for more of them than memory should hold."""
        wanted = StepRange(start, end, after, columns, attempt)
        return StepReader(self._transport, self.id, wanted).read()

    def follow_steps(
        self,
        *,
        after: int | None = None,
        columns: Sequence[str] | None = None,
        poll_s: float = POLL_S,
    ) -> Iterator["StepBlock"]:
        """Every step after `after`, each exactly once, as they come, until the job has ended."""
        reader = StepReader(self._transport, self.id, StepRange(after=after, columns=columns))
        while True:
            # The state is read before the steps: an ended job stores no more of them.
            ended = self._has_ended()
            yield from reader.read(patience_s=POLLING_PATIENCE_S)
            if ended:
                return
            time.sleep(poll_s)

    def events(self, *, after: int | None = None) -> list[JobEvent]:
        """The job's ledger in order, behind the event whose `seq` is `after`."""
        events: list[JobEvent] = []
        more = True
        while more:
            page = self._transport.send(calls.get_events(self.id, after=after))
            events += page.entries
            after, more = page.next, page.more and bool(page.entries)
        return events

    def attempts(self) -> list[Attempt]:
        """Every time that a worker took the job, the first one first, and how that ended."""
        return self._transport.send(calls.list_attempts(self.id))

    def logs(
        self, *, follow: bool = False, after: int | None = None, attempt: int | None = None
    ) -> Iterator[LogEntry]:
        """What the job's processes printed, behind the entry whose `seq` is `after`.

        With `follow` also what they will print, each piece once, until the job has ended; a
        server that restarts meanwhile is borne with for a minute.
        """
        reader = LogReader(self._transport, self.id, after=after, attempt=attempt)
        return reader.follow(self._has_ended) if follow else reader.read()

    def artifacts(self) -> list[Artifact]:
        """The files that the job has left: checkpoints, the model, reports."""
        return self._transport.send(calls.list_artifacts(self.id))

    def download(
        self,
        path: str | None = None,
        *,
        to: str | PathLike[str] = ".",
        report: Report = lambda artifact, size_bytes: None,
    ) -> list[Path]:
        """Bring a file, a folder (`path` is its beginning) or all of them into the folder `to`.

        Answers where they are: their own paths below `to`. What is there already is not fetched
        again; what broke off goes on where it stopped, in this call or in a later one. `report`
        is called with each file and the bytes of it that are here. Raises NotFound, OSError, and
        DigestMismatch for a file whose SHA-256 is not the promised one.
        """
        places = [(a, place_of(a, Path(to))) for a in chosen(self.artifacts(), path)]
        for artifact, target in places:
            download(self._transport, self.id, artifact, target, report)
        return [target for _, target in places]

    def _has_ended(self) -> bool:
        """Whether the job has ended by now; one that has is not asked for again."""
        if self.state.is_terminal:
            return True
        call = calls.get_job(self.id)
        return self._transport.send(call, patience_s=POLLING_PATIENCE_S).state.is_terminal
