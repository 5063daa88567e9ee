"""Reads the steps of a job as a stream: each exactly once, across reconnects."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from ampclient import _endpoints as endpoints
from ampclient._http.retry import RETRY_TIMEOUT_S, RetryState
from ampclient._http.transport import Transport
from ampclient._telemetry.arrow_stream import read_step_blocks
from ampclient.errors import ConnectionFailed, StatusError, StepsMissing, UnexpectedResponse

if TYPE_CHECKING:
    from ampspec.telemetry import StepBlock


class StepReader:
    """Reads a range of steps, and continues after the last step read."""

    def __init__(self, transport: Transport, job_id: str, step_range: endpoints.StepRange) -> None:
        self._transport = transport
        self._job_id = job_id
        self._remaining = step_range

    async def read(
        self, *, retry_timeout_s: float = RETRY_TIMEOUT_S
    ) -> AsyncGenerator["StepBlock", None]:
        """The stored steps that were not read before, in ascending blocks.

        Raises UnexpectedResponse for a repeated step.
        """
        retries = self._transport.retries(self._stream(), retry_timeout_s)
        while True:
            try:
                async with aclosing(self._read_connection(retries)) as blocks:
                    async for block in blocks:
                        yield block
            except (ConnectionFailed, StatusError) as error:
                await self._transport.sleep(retries.next_delay_s(error))
            else:
                return

    async def _read_connection(self, retries: RetryState) -> AsyncGenerator["StepBlock", None]:
        """The blocks of one connection."""
        async with self._transport.open(self._stream()) as response:
            async for block in read_step_blocks(response):
                self._advance(block)
                yield block
                retries.reset()  # again, since the caller may have kept the block for long

    def _stream(self) -> endpoints.Request:
        return endpoints.stream_steps(self._job_id, self._remaining, endpoints.ARROW)

    def _advance(self, block: "StepBlock") -> None:
        if block.first_step < self._remaining.first:
            raise UnexpectedResponse(
                f"The server sent step {block.first_step} again; expected step "
                f"{self._remaining.first} or later."
            )
        self._remaining = replace(self._remaining, start=None, after_step=block.end_step - 1)


def concat_blocks(
    blocks: Sequence["StepBlock"], step_range: endpoints.StepRange, *, may_have_gaps: bool
) -> "StepBlock":
    """Join blocks; an empty block if there are none.

    Raises StepsMissing for a gap, unless the program that has logged the steps may leave some out.
    """
    from ampspec.telemetry import COLUMN_DTYPES, StepBlock

    if not blocks:
        names = [name for name in step_range.columns or COLUMN_DTYPES if name != "step"]
        return StepBlock(step_range.first, {name: [] for name in names})
    block = StepBlock.concat(blocks)
    if block.has_gaps and not may_have_gaps:
        steps = block["step"]
        gap_start, gap_end = next((a + 1, b) for a, b in pairwise(steps.tolist()) if b - a > 1)
        raise StepsMissing(
            f"Steps {gap_start} to {gap_end - 1} are missing. Use iter_steps() to read the steps "
            "before and after the gap."
        )
    return block
