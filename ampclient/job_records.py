"""Reads the records of a job: events, attempts, logs and files."""

import json
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Unpack

from ampclient import requests
from ampclient._request_options import RequestOptions
from ampclient._sync_async import iterator, operation
from ampclient.downloads import OnProgress, artifact_file, download, select_artifacts, target_path
from ampclient.evaluations import Evaluations
from ampclient.job_stream import JobStream
from ampclient.logs import LogReader
from ampspec.api.data_summary import DataSummary
from ampspec.api.job.artifacts import Artifact
from ampspec.api.job.attempts import Attempt
from ampspec.api.job.evaluations import Evaluation
from ampspec.api.job.events import JobEvent
from ampspec.api.job.explanations import ExplanationCost, ListedExplanation
from ampspec.api.job.initial_weights import LoadedWeights
from ampspec.api.job.logs import LogEntry
from ampspec.api.job.ranges import NumberFormatName, Ranges


class JobRecords(JobStream):
    """A view of a job with the operations that read its records."""

    @operation
    async def events(
        self,
        *,
        after: int | None = None,
        type: str | Sequence[str] | None = None,  # noqa: A002 - the name in the API
        **options: Unpack[RequestOptions],
    ) -> list[JobEvent]:
        """The job's event log in order, after the event with this `seq`; of these types only."""
        types = [type] if isinstance(type, str) else [*(type or ())]
        events: list[JobEvent] = []
        more = True
        while more:
            request = requests.get_events(self.id, after=after, types=types)
            page = await self._transport.send(request, **options)
            events += page.items
            after, more = page.next, page.more and bool(page.items)
        return events

    @operation
    async def explanations(
        self, *, step: int | None = None, **options: Unpack[RequestOptions]
    ) -> list[ListedExplanation]:
        """The newest explanations of this job's steps, or of one step; see `explain`."""
        request = requests.list_explanations(self.id, step=step)
        return await self._transport.send(request, **options)

    @operation
    async def explanation_cost(
        self, step: int, **options: Unpack[RequestOptions]
    ) -> ExplanationCost:
        """What has to be repeated to explain a step. Raises Conflict if it is not stored."""
        request = requests.get_explanation_cost(self.id, step)
        return await self._transport.send(request, **options)

    @operation
    async def answer(self, **options: Unpack[RequestOptions]) -> dict[str, Any] | None:
        """The answer of a job that explains a step; None without one, as before it has succeeded.

        docs/reference/explanations.md describes its fields.
        """
        if self.explains is None:
            return None
        request = requests.get_explanation(self.explains, self.id)
        return (await self._transport.send(request, **options)).answer

    @operation
    async def loaded_weights(self, **options: Unpack[RequestOptions]) -> LoadedWeights | None:
        """Which weights the job has taken from the source that its `init` names.

        None if it names none, or has not begun.
        """
        request = requests.get_events(self.id, after=None, types=["weights_loaded"])
        page = await self._transport.send(request, **options)
        # A server before 0.6 does not know the type, but has no such jobs either.
        found = [event for event in page.items if event.type == "weights_loaded"]
        return LoadedWeights.from_json(found[-1].data) if found else None

    @operation
    async def data_summary(self, **options: Unpack[RequestOptions]) -> DataSummary | None:
        """The rows, columns and classes that the newest attempt trains on.

        None before its first step, and for jobs of older workers.
        """
        request = requests.get_events(self.id, after=None, types=["started"])
        page = await self._transport.send(request, **options)
        events = [event for event in page.items if event.type == "started"]
        return DataSummary.from_event(events[-1].data) if events else None

    @operation
    async def evaluations(
        self, *, after: int | None = None, **options: Unpack[RequestOptions]
    ) -> Evaluations:
        """The validation metrics by epoch and step, after this step; each step once.

        If a later attempt evaluated a step again, the metrics are those of the latest one.
        """
        found: list[Evaluation] = []
        more = True
        while more:
            request = requests.get_evaluations(self.id, after=after)
            page = await self._transport.send(request, **options)
            found += page.items
            after, more = page.next, page.more and bool(page.items)
        return Evaluations.of(found)

    @operation
    async def ranges(
        self,
        number_format: NumberFormatName = "float16",
        *,
        start: int | None = None,
        end: int | None = None,
        max_samples: int | None = None,
        **options: Unpack[RequestOptions],
    ) -> Ranges:
        """The exponents of every layer's values and gradients, and what a number format would do.

        Args:
            number_format: `float16`, `bfloat16`, `float8_e4m3fn` or `float8_e5m2`.
            start: The first step.
            end: The step after the last one.
            max_samples: At most this many samples, evenly spaced; None: the server's default.
            options: Those of every request.
        """
        request = requests.get_ranges(
            self.id, number_format=number_format, start=start, end=end, max_samples=max_samples
        )
        return await self._transport.send(request, **options)

    @operation
    async def attempts(self, **options: Unpack[RequestOptions]) -> list[Attempt]:
        """All attempts at the job in order, with their outcomes."""
        return await self._transport.send(requests.list_attempts(self.id), **options)

    @iterator
    def logs(
        self, *, follow: bool = False, after: int | None = None, attempt: int | None = None
    ) -> AsyncGenerator[LogEntry, None]:
        """The log of the job's processes, after the entry with this `seq`.

        With `follow` also later entries, each once, until the job has ended; an unreachable server
        is retried for a minute.
        """
        reader = LogReader(self._transport, self.id, after=after, attempt=attempt)
        return reader.follow(self._has_ended) if follow else reader.read()

    @operation
    async def artifacts(self, **options: Unpack[RequestOptions]) -> list[Artifact]:
        """The files of the job: checkpoints, the model, reports."""
        return await self._transport.send(requests.list_artifacts(self.id), **options)

    @operation
    async def profile_report(self, **options: Unpack[RequestOptions]) -> dict[str, Any] | None:
        """The report of the job's newest profile, as docs/reference/profile.md describes it.

        None if there is none yet.
        """
        artifacts = await self._transport.send(requests.list_artifacts(self.id), **options)
        reports = [a for a in artifacts if a.kind == "profile" and a.path.endswith("/report.json")]
        if not reports:
            return None
        with TemporaryDirectory(prefix="ampctl-profile-") as folder:
            target = target_path(reports[-1], Path(folder))
            file = artifact_file(self.id, reports[-1])
            await download(self._transport, file, target, _ignore_progress)
            report: dict[str, Any] = json.loads(target.read_bytes())
        return report

    @operation
    async def download(
        self,
        path: str | None = None,
        *,
        to: str | PathLike[str] = ".",
        on_progress: OnProgress = lambda artifact, size_bytes: None,
    ) -> list[Path]:
        """Download a file, a folder or all files of the job into the folder `to`.

        A complete file is not downloaded again; a partial one is resumed, in this call or a later
        one.

        Args:
            path: The path of a file or folder; None for all files.
            to: The folder below which the files keep their own paths.
            on_progress: Called with each file and the number of its bytes downloaded so far.

        Returns:
            The paths of the files on this machine.

        Raises:
            NotFound: There is no such file.
            DigestMismatch: A file does not match its SHA-256.
            OSError: A file cannot be written.
        """
        artifacts = await self._transport.send(requests.list_artifacts(self.id))
        targets = [(a, target_path(a, Path(to))) for a in select_artifacts(artifacts, path)]
        for artifact, target in targets:
            file = artifact_file(self.id, artifact)
            await download(self._transport, file, target, partial(on_progress, artifact))
        return [target for _, target in targets]


def _ignore_progress(size_bytes: int) -> None:
    """A report is small."""
