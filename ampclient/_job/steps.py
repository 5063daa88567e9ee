"""Reads the steps of a job: completely, live, downsampled, or as a file."""

from collections.abc import AsyncGenerator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from ampclient import _endpoints as endpoints
from ampclient._http.operations import M, iterator, operation
from ampclient._http.options import RequestOptions
from ampclient._http.retry import POLLING_RETRY_TIMEOUT_S
from ampclient._job.bound import BoundJob
from ampclient._job.wait import POLL_S, JobUpdates
from ampclient._telemetry.step_sample import StepSample
from ampclient._telemetry.steps import StepReader, concat_blocks
from ampclient._transfer.exports import export, iter_response
from ampclient._transfer.progress import OnProgress, current_callback, no_progress
from ampspec.jobs import Source

if TYPE_CHECKING:
    from ampspec.telemetry import StepBlock


class JobSteps(BoundJob[M]):
    """A view of a job with the operations that read its steps."""

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

        Each step is returned once, from the latest attempt that reached it. With `attempt`, the
        steps of that attempt are returned, also those that a later attempt repeated. A tracked
        run has the steps that its program has logged. Raises StepsMissing if steps of a job inside
        the range are not stored.
        """
        step_range = endpoints.StepRange(start, end, after, columns, attempt)
        reader = StepReader(self._transport, self.id, step_range)
        blocks = [block async for block in reader.read()]
        return concat_blocks(blocks, step_range, may_have_gaps=self.source == Source.TRACKED)

    @iterator
    def iter_steps(
        self,
        *,
        start: int | None = None,
        end: int | None = None,
        after: int | None = None,
        columns: Sequence[str] | None = None,
        attempt: int | None = None,
    ) -> AsyncGenerator["StepBlock", None]:
        """As `steps`, block by block, for more steps than fit into memory.

        Where steps are missing, `block["step"]` has a gap, or there is one between two blocks.
        """
        step_range = endpoints.StepRange(start, end, after, columns, attempt)
        return StepReader(self._transport, self.id, step_range).read()

    @iterator
    async def follow_steps(
        self,
        *,
        after: int | None = None,
        columns: Sequence[str] | None = None,
        poll_s: float = POLL_S,
    ) -> AsyncGenerator["StepBlock", None]:
        """Every step after `after`, each exactly once, live, until the job has ended.

        Steps that a later attempt repeats are not returned again.
        """
        step_range = endpoints.StepRange(after_step=after, columns=columns)
        reader = StepReader(self._transport, self.id, step_range)
        jobs: list[Any] = [self]
        updates = JobUpdates(jobs, "change", poll_s=poll_s)
        while True:
            # The state is read before the steps: an ended job stores no more of them.
            [job] = await updates.next()
            async for block in reader.read(retry_timeout_s=POLLING_RETRY_TIMEOUT_S):
                yield block
            if job.state.is_terminal:
                return

    @operation
    async def sample(
        self,
        max_points: int = 1000,
        *,
        start: int | None = None,
        end: int | None = None,
        columns: Sequence[str] | None = None,
        attempt: int | None = None,
        **options: Unpack[RequestOptions],
    ) -> StepSample:
        """A range of steps in at most 2 to 10,000 points that keep every event: see StepSample."""
        step_range = endpoints.StepRange(start=start, end=end, columns=columns, attempt=attempt)
        return await self._transport.send(
            endpoints.sample_steps(self.id, step_range, max_points), **options
        )

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
        on_progress: OnProgress = no_progress,
    ) -> Path:
        """Write the steps, or the points of a sample, to a file and return its path.

        `format` is csv, parquet, arrow (the IPC streaming format), ndjson or tensorboard. If `path`
        is a folder, the file gets the server's name for it; for tensorboard, `path` is a folder
        unless its name contains "tfevents". The file is written completely or not at all, and
        replaces an existing one. `on_progress` is called with the name of the file, its bytes
        received so far, and None, since all its bytes are not known before. Raises OSError, and
        ConnectionFailed if the response is cut off several times.
        """
        step_range = endpoints.StepRange(start=start, end=end, columns=columns, attempt=attempt)
        request = endpoints.stream_steps(self.id, step_range, format, max_points=max_points)
        on_progress = current_callback(
            on_progress, "size_bytes", lambda _name, size, _total: (size,)
        )
        return await export(self._transport, request, path, format, on_progress)

    @iterator
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
        """The bytes of such a file as they arrive, for a pipe or a socket.

        Raises ConnectionFailed if they are cut off: the file is then incomplete.
        """
        step_range = endpoints.StepRange(start=start, end=end, columns=columns, attempt=attempt)
        request = endpoints.stream_steps(self.id, step_range, format, max_points=max_points)
        return iter_response(self._transport, request)
