"""Reads the records of a job: events, attempts, allocations, logs and files."""

import json
import math
from collections.abc import AsyncGenerator, Collection, Sequence
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Unpack

from ampclient import _endpoints as endpoints
from ampclient._http.operations import M, iterator, operation, short_list
from ampclient._http.options import RequestOptions
from ampclient._job.bound import BoundJob
from ampclient._telemetry.evaluation_report import EvaluationReport
from ampclient._telemetry.evaluations import Evaluations
from ampclient._telemetry.event_stream import EventStreamReader
from ampclient._telemetry.logs import LogReader
from ampclient._telemetry.validation_examples import ValidationExamples
from ampclient._transfer.downloads import artifact_file, download, select_artifacts, target_path
from ampclient._transfer.progress import OnProgress, current_callback, no_progress
from ampspec.api.data_summary import DataSummary
from ampspec.api.job.allocations import Allocation
from ampspec.api.job.artifacts import Artifact, JobImage
from ampspec.api.job.attempts import Attempt
from ampspec.api.job.evaluations import Evaluation
from ampspec.api.job.events import JobEvent
from ampspec.api.job.explanations import ExplanationCost, ListedExplanation
from ampspec.api.job.initial_weights import LoadedWeights
from ampspec.api.job.logs import LogEntry
from ampspec.api.job.ranges import NumberFormatName, Ranges

if TYPE_CHECKING:
    from ampclient._telemetry.event_stream import StreamEntry
    from ampclient._telemetry.stream_events import StepsEvent


class JobHistory(BoundJob[M]):
    """A view of a job with the operations that read its history."""

    @short_list
    async def events(
        self,
        *,
        after: int | None = None,
        type: str | Sequence[str] | None = None,  # noqa: A002 - the name in the API
        limit: int | None = None,
        **options: Unpack[RequestOptions],
    ) -> AsyncGenerator[JobEvent, None]:
        """The job's event log in order, after the event with this `seq`; at most `limit` events.

        With `type` only events of this type, or of these types.
        """
        types = [type] if isinstance(type, str) else [*(type or ())]
        remaining = math.inf if limit is None else limit
        last_seq, more = after, True
        while more and remaining > 0:
            size = int(min(remaining, endpoints.ENTRIES_PER_PAGE))
            request = endpoints.get_events(self.id, after_seq=last_seq, types=types, limit=size)
            page = await self._transport.send(request, **options)
            for event in page.items[:size]:
                yield event
            remaining -= len(page.items)
            last_seq, more = page.next, page.more and bool(page.items)

    @operation
    async def explanations(
        self, *, step: int | None = None, **options: Unpack[RequestOptions]
    ) -> list[ListedExplanation]:
        """The newest explanations of this job's steps, or of one step; see `explain`."""
        request = endpoints.list_explanations(self.id, step=step)
        return await self._transport.send(request, **options)

    @operation
    async def explanation_cost(
        self, step: int, **options: Unpack[RequestOptions]
    ) -> ExplanationCost:
        """What has to be repeated to explain a step. Raises Conflict if it is not stored."""
        request = endpoints.get_explanation_cost(self.id, step)
        return await self._transport.send(request, **options)

    @operation
    async def answer(self, **options: Unpack[RequestOptions]) -> dict[str, Any] | None:
        """The answer of a job that explains a step; None without one, as before it has succeeded.

        docs/reference/explanations.md describes its fields.
        """
        if self.explains is None:
            return None
        request = endpoints.get_explanation(self.explains, self.id)
        return (await self._transport.send(request, **options)).answer

    @operation
    async def loaded_weights(self, **options: Unpack[RequestOptions]) -> LoadedWeights | None:
        """Which weights the job has taken from the source that its `init` names.

        None if it names none, or has not begun.
        """
        request = endpoints.get_events(self.id, after_seq=None, types=["weights_loaded"])
        page = await self._transport.send(request, **options)
        # A server before 0.6 does not know the type, but has no such jobs either.
        events = [event for event in page.items if event.type == "weights_loaded"]
        return LoadedWeights.from_json(events[-1].data) if events else None

    @operation
    async def data_summary(self, **options: Unpack[RequestOptions]) -> DataSummary | None:
        """The rows, columns and classes that the newest attempt trains on.

        None before its first step, and for jobs of older workers.
        """
        request = endpoints.get_events(self.id, after_seq=None, types=["started"])
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
        evaluations: list[Evaluation] = []
        last_step, more = after, True
        while more:
            request = endpoints.get_evaluations(self.id, after_step=last_step)
            page = await self._transport.send(request, **options)
            evaluations += page.items
            last_step, more = page.next, page.more and bool(page.items)
        return Evaluations.of(evaluations)

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
        request = endpoints.get_ranges(
            self.id, number_format=number_format, start=start, end=end, max_samples=max_samples
        )
        return await self._transport.send(request, **options)

    @operation
    async def attempts(self, **options: Unpack[RequestOptions]) -> list[Attempt]:
        """All attempts at the job in order, with their outcomes."""
        return await self._transport.send(endpoints.list_attempts(self.id), **options)

    @operation
    async def allocations(self, **options: Unpack[RequestOptions]) -> list[Allocation]:
        """What a batch system was asked for to run the job, oldest first; empty without one.

        Raises NotFound from a server of 0.6.0 or before, which knows no batch systems.
        """
        return await self._transport.send(endpoints.list_allocations(self.id), **options)

    @iterator
    def logs(
        self, *, follow: bool = False, after: int | None = None, attempt: int | None = None
    ) -> AsyncGenerator[LogEntry, None]:
        """The log of the job's processes, after the entry with this `seq`.

        With `follow` also later entries, each once, until the job has ended; an unreachable server
        is retried for a minute.
        """
        reader = LogReader(self._transport, self.id, after_seq=after, attempt=attempt)
        return reader.follow(self._has_ended) if follow else reader.read()

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
        query = endpoints.StreamQuery(("steps",), columns)
        return EventStreamReader(self._transport, self.id, query, after).steps()

    @iterator
    def follow(
        self,
        *,
        kinds: Collection[str] = endpoints.STREAM_KINDS,
        after: int = 0,
        columns: Sequence[str] | None = None,
    ) -> AsyncGenerator["StreamEntry", None]:
        """All entries of the event stream in order, until the job has ended; see `stream`.

        The `kinds` are steps (blocks as from `stream`), events (JobEvent; a state change has the
        type "state") and logs (LogEntry). Every entry has a `seq` and an `attempt`.
        """
        query = endpoints.StreamQuery(tuple(kinds), columns)
        return EventStreamReader(self._transport, self.id, query, after).read()

    @operation
    async def artifacts(self, **options: Unpack[RequestOptions]) -> list[Artifact]:
        """The files of the job: checkpoints, the model, reports."""
        return await self._transport.send(endpoints.list_artifacts(self.id), **options)

    @operation
    async def profile_report(self, **options: Unpack[RequestOptions]) -> dict[str, Any] | None:
        """The report of the job's newest profile, as docs/reference/profile.md describes it.

        None if there is none yet.
        """
        artifacts = await self._transport.send(endpoints.list_artifacts(self.id), **options)
        reports = [a for a in artifacts if a.kind == "profile" and a.path.endswith("/report.json")]
        if not reports:
            return None
        report: dict[str, Any] = json.loads(await self._content(reports[-1]))
        return report

    @operation
    async def validation_examples(
        self, **options: Unpack[RequestOptions]
    ) -> ValidationExamples | None:
        """The rows that the newest attempt was evaluated on, with its metrics on each of them.

        None before the job has succeeded, without validation examples, and for more than ten
        million of them.
        """
        artifacts = await self._transport.send(endpoints.list_artifacts(self.id), **options)
        tables = [a for a in artifacts if a.path.endswith("/validation_examples.npy")]
        return ValidationExamples.from_table(await self._content(tables[-1])) if tables else None

    @operation
    async def evaluation_report(self, **options: Unpack[RequestOptions]) -> EvaluationReport | None:
        """What the trained model of the newest attempt gets right and wrong.

        None before the job has succeeded, if its spec switches the report off, and without
        validation examples or outputs that it could be about (docs/reference/evaluation.md).
        """
        artifacts = await self._transport.send(endpoints.list_artifacts(self.id), **options)
        reports = [a for a in artifacts if a.path.endswith("/evaluation.json")]
        return EvaluationReport.from_file(await self._content(reports[-1])) if reports else None

    @operation
    async def images(
        self, name: str | None = None, **options: Unpack[RequestOptions]
    ) -> list[JobImage]:
        """The pictures that the program of a tracked run has logged, by step.

        Args:
            name: Only those of this name.
            options: Of the request.
        """
        images = await self._transport.send(endpoints.list_images(self.id), **options)
        return [image for image in images if name in (None, image.name)]

    @operation
    async def image_content(self, image: JobImage) -> bytes:
        """The PNG or JPEG file of a picture. Raises DigestMismatch."""
        return await self._content(image)

    async def _content(self, artifact: Artifact) -> bytes:
        """The bytes of a file of the job. Raises DigestMismatch."""
        with TemporaryDirectory(prefix="ampcore-artifact-") as folder:
            target = target_path(artifact, Path(folder))
            await download(self._transport, artifact_file(self.id, artifact), target, no_progress)
            return target.read_bytes()

    @operation
    async def download(
        self,
        path: str | None = None,
        *,
        to: str | PathLike[str] = ".",
        on_progress: OnProgress = no_progress,
    ) -> list[Path]:
        """Download a file, a folder or all files of the job into the folder `to`.

        A complete file is not downloaded again; a partial one is resumed, in this call or a later
        one.

        Args:
            path: The path of a file or folder; None for all files.
            to: The folder below which the files keep their own paths.
            on_progress: Called with the path of each file, its bytes received so far, and all its
                bytes.

        Returns:
            The paths of the files on this machine.

        Raises:
            NotFound: There is no such file.
            DigestMismatch: A file does not match its SHA-256.
            OSError: A file cannot be written.
        """
        artifacts = await self._transport.send(endpoints.list_artifacts(self.id))
        targets = [(a, target_path(a, Path(to))) for a in select_artifacts(artifacts, path)]
        by_path = {artifact.path: artifact for artifact, _ in targets}
        on_progress = current_callback(
            on_progress, "artifact, size_bytes", lambda path, size, _total: (by_path[path], size)
        )
        for artifact, target in targets:
            file = artifact_file(self.id, artifact)
            await download(self._transport, file, target, on_progress)
        return [target for _, target in targets]
