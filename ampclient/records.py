"""What a job has left on the server: steps, events, attempts, printed text, files."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from ampclient import calls
from ampclient.downloads import Report, chosen, download, place_of
from ampclient.faces import operation, series
from ampclient.job_story import JobStory
from ampclient.logs import LogReader
from ampclient.views import Artifact, Attempt, JobEvent, LogEntry


@dataclass(frozen=True, kw_only=True)
class JobRecords(JobStory):
    """A view of a job, from which its records can be read."""

    @operation
    async def events(self, *, after: int | None = None) -> list[JobEvent]:
        """The job's ledger in order, behind the event whose `seq` is `after`."""
        events: list[JobEvent] = []
        more = True
        while more:
            page = await self._transport.send(calls.get_events(self.id, after=after))
            events += page.entries
            after, more = page.next, page.more and bool(page.entries)
        return events

    @operation
    async def attempts(self) -> list[Attempt]:
        """Every time that a worker took the job, the first one first, and how that ended."""
        return await self._transport.send(calls.list_attempts(self.id))

    @series
    def logs(
        self, *, follow: bool = False, after: int | None = None, attempt: int | None = None
    ) -> AsyncGenerator[LogEntry, None]:
        """What the job's processes printed, behind the entry whose `seq` is `after`.

        With `follow` also what they will print, each piece once, until the job has ended; a
        server that restarts meanwhile is borne with for a minute.
        """
        reader = LogReader(self._transport, self.id, after=after, attempt=attempt)
        return reader.follow(self._has_ended) if follow else reader.read()

    @operation
    async def artifacts(self) -> list[Artifact]:
        """The files that the job has left: checkpoints, the model, reports."""
        return await self._transport.send(calls.list_artifacts(self.id))

    @operation
    async def download(
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
        artifacts = await self._transport.send(calls.list_artifacts(self.id))
        places = [(a, place_of(a, Path(to))) for a in chosen(artifacts, path)]
        for artifact, target in places:
            await download(self._transport, self.id, artifact, target, report)
        return [target for _, target in places]
