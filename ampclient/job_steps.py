"""The steps of a job: all of them, as they come, in few points, or as a file."""

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

if TYPE_CHECKING:
    from ampcore.telemetry import StepBlock


class JobSteps(JobView):
    """A view of a job, from which its steps can be read."""

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

        Each step is there once, from the newest attempt that reached it; those that one
        `attempt` reported are there also where a later one went over them again. Raises
        StepsMissing where some between them are not stored.
        """
        wanted = requests.StepRange(start, end, after, columns, attempt)
        reader = StepReader(self._transport, self.id, wanted)
        return concat_blocks([block async for block in reader.read()], wanted)

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
        """The same steps block by block, for more of them than memory should hold.

        Between two blocks there is a gap where steps are missing.
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
        """Every step after `after`, each exactly once, as they come, until the job has ended.

        As it was first done: a step that a later attempt does again is not told a second time.
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
        """The same range in 2 to 10,000 points at most, which hide no event: see StepSample."""
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
        """Write the same steps, or points of a sample, into a file, and answer where it is.

        `format` is csv, parquet, arrow (the IPC streaming format), ndjson or tensorboard. Into a
        folder the file goes under the server's name for it; for TensorBoard, which reads folders,
        `path` is one unless it has "tfevents" in its name. The file is there whole or not at all;
        one that was there is replaced. `on_progress` is called with the bytes that are here. Raises
        OSError, and ConnectionFailed for an answer that breaks off several times.
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
        """The bytes of such a file as they come, for a pipe or a socket.

        Raises ConnectionFailed where they break off: what was given then is no whole file.
        """
        wanted = requests.StepRange(start=start, end=end, columns=columns, attempt=attempt)
        request = requests.stream_steps(self.id, wanted, format, max_points=max_points)
        return iter_response(self._transport, request)

    async def _has_ended(self) -> bool:
        """Whether the job has ended by now; one that has is not asked for again."""
        if self.state.is_terminal:
            return True
        request = requests.get_job(self.id)
        view = await self._transport.send(request, retry_timeout_s=POLLING_RETRY_TIMEOUT_S)
        return view.state.is_terminal
