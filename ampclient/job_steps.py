"""Reads the steps of a job: completely, live, downsampled, or as a file."""

from collections.abc import AsyncGenerator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from pydantic import ConfigDict, PrivateAttr

from ampclient import requests
from ampclient._request_options import RequestOptions
from ampclient._sync_async import iterator, operation
from ampclient._transport import Transport
from ampclient.exports import OnProgress, export, iter_response
from ampclient.job_view import JobView
from ampclient.retry import POLLING_RETRY_TIMEOUT_S
from ampclient.step_sample import StepSample
from ampclient.steps import StepReader, concat_blocks
from ampclient.wait import POLL_S
from ampspec.jobs import Source

if TYPE_CHECKING:
    from ampspec.telemetry import StepBlock


class JobSteps(JobView):
    """A view of a job with the operations that read its steps."""

    model_config = ConfigDict(ignored_types=(operation, iterator))

    _transport: Transport = PrivateAttr()

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
        wanted = requests.StepRange(start, end, after, columns, attempt)
        reader = StepReader(self._transport, self.id, wanted)
        blocks = [block async for block in reader.read()]
        return concat_blocks(blocks, wanted, may_have_gaps=self.source == Source.TRACKED)

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
        wanted = requests.StepRange(start, end, after, columns, attempt)
        return StepReader(self._transport, self.id, wanted).read()

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
        wanted = requests.StepRange(after=after, columns=columns)
        reader = StepReader(self._transport, self.id, wanted)
        while True:
            # The state is read before the steps: an ended job stores no more of them.
            ended = await self._has_ended()
            async for block in reader.read(retry_timeout_s=POLLING_RETRY_TIMEOUT_S):
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
        **options: Unpack[RequestOptions],
    ) -> StepSample:
        """A range of steps in at most 2 to 10,000 points that keep every event: see StepSample."""
        wanted = requests.StepRange(start=start, end=end, columns=columns, attempt=attempt)
        return await self._transport.send(
            requests.sample_steps(self.id, wanted, max_points), **options
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
        on_progress: OnProgress = lambda size_bytes: None,
    ) -> Path:
        """Write the steps, or the points of a sample, to a file and return its path.

        `format` is csv, parquet, arrow (the IPC streaming format), ndjson or tensorboard. If `path`
        is a folder, the file gets the server's name for it; for tensorboard, `path` is a folder
        unless its name contains "tfevents". The file is written completely or not at all, and
        replaces an existing one. `on_progress` is called with the number of bytes received so far.
        Raises OSError, and ConnectionFailed if the response is cut off several times.
        """
        wanted = requests.StepRange(start=start, end=end, columns=columns, attempt=attempt)
        request = requests.stream_steps(self.id, wanted, format, max_points=max_points)
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
        wanted = requests.StepRange(start=start, end=end, columns=columns, attempt=attempt)
        request = requests.stream_steps(self.id, wanted, format, max_points=max_points)
        return iter_response(self._transport, request)

    async def _has_ended(self) -> bool:
        """Whether the job has ended; the server is asked only if this view has not ended."""
        if self.state.is_terminal:
            return True
        request = requests.get_job(self.id)
        view = await self._transport.send(request, retry_timeout_s=POLLING_RETRY_TIMEOUT_S)
        return view.state.is_terminal
