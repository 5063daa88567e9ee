"""The steps of a job: all of them, as they come, in few points, or as a file."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from ampclient import calls
from ampclient.exports import Report, export, pieces_of
from ampclient.faces import operation, series
from ampclient.retry import POLLING_PATIENCE_S
from ampclient.steps import StepReader, joined
from ampclient.transport import Transport
from ampclient.views import JobView, StepSample
from ampclient.wait import POLL_S

if TYPE_CHECKING:
    from ampcore.series import StepBlock


@dataclass(frozen=True, kw_only=True)
class JobSteps(JobView):
    """A view of a job, from which its steps can be read."""

    _transport: Transport = field(repr=False, compare=False)

    @operation
    async def steps(
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
        `attempt` reported are there also where a later one went over them again. Raises
        StepsMissing where some between them are not stored.
        """
        wanted = calls.StepRange(start, end, after, columns, attempt)
        reader = StepReader(self._transport, self.id, wanted)
        return joined([block async for block in reader.read()], wanted)

    @series
    def iter_steps(
        self,
        *,
        start: int | None = None,
        end: int | None = None,
        after: int | None = None,
        columns: Sequence[str] | None = None,
        attempt: int | None = None,
    ) -> AsyncGenerator["StepBlock", None]:
        """The same steps block by block, for more of them than memory should hold.

        Between two blocks there is a gap where steps are missing.
        """
        wanted = calls.StepRange(start, end, after, columns, attempt)
        return StepReader(self._transport, self.id, wanted).read()

    @series
    async def follow_steps(
        self,
        *,
        after: int | None = None,
        columns: Sequence[str] | None = None,
        poll_s: float = POLL_S,
    ) -> AsyncGenerator["StepBlock", None]:
        """Every step after `after`, each exactly once, as they come, until the job has ended.

        As it was first done: a step that a later attempt does again is not told a second time.
        """
        wanted = calls.StepRange(after=after, columns=columns)
        reader = StepReader(self._transport, self.id, wanted)
        while True:
            # The state is read before the steps: an ended job stores no more of them.
            ended = await self._has_ended()
            async for block in reader.read(patience_s=POLLING_PATIENCE_S):
                yield block
            if ended:
                return
            await self._transport.sleep(poll_s)

    @operation
    async def sample(
        self,
        max_points: int = 1000,
        *,
        start: int | None = None,
        end: int | None = None,
        columns: Sequence[str] | None = None,
        attempt: int | None = None,
    ) -> StepSample:
        """The same range in 2 to 10,000 points at most, which hide no event: see StepSample."""
        wanted = calls.StepRange(start=start, end=end, columns=columns, attempt=attempt)
        return await self._transport.send(calls.sample_steps(self.id, wanted, max_points))

    @operation
    async def export(
        self,
        path: str | PathLike[str],
        format: str = "csv",  # noqa: A002 - the word of the API and of ampctl
        *,
        start: int | None = None,
        end: int | None = None,
        columns: Sequence[str] | None = None,
        attempt: int | None = None,
        max_points: int | None = None,
        report: Report = lambda size_bytes: None,
    ) -> Path:
        """Write the same steps, or points of a sample, into a file, and answer where it is.

        `format` is csv, parquet, arrow (the IPC streaming format), ndjson or tensorboard. Into a
        folder the file goes under the server's name for it; for TensorBoard, which reads folders,
        `path` is one unless it has "tfevents" in its name. The file is there whole or not at all;
        one that was there is replaced. `report` is called with the bytes that are here. Raises
        OSError, and ConnectionFailed for an answer that breaks off several times.
        """
        wanted = calls.StepRange(start=start, end=end, columns=columns, attempt=attempt)
        request = calls.stream_steps(self.id, wanted, format, max_points=max_points)
        return await export(self._transport, request, path, format, report)

    @series
    def iter_export(
        self,
        format: str = "csv",  # noqa: A002
        *,
        start: int | None = None,
        end: int | None = None,
        columns: Sequence[str] | None = None,
        attempt: int | None = None,
        max_points: int | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """The bytes of such a file as they come, for a pipe or a socket.

        Raises ConnectionFailed where they break off: what was given then is no whole file.
        """
        wanted = calls.StepRange(start=start, end=end, columns=columns, attempt=attempt)
        request = calls.stream_steps(self.id, wanted, format, max_points=max_points)
        return pieces_of(self._transport, request)

    async def _has_ended(self) -> bool:
        """Whether the job has ended by now; one that has is not asked for again."""
        if self.state.is_terminal:
            return True
        call = calls.get_job(self.id)
        view = await self._transport.send(call, patience_s=POLLING_PATIENCE_S)
        return view.state.is_terminal
