"""Read the steps of a job as they come: each exactly once, over connections that break."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from ampclient import calls
from ampclient.batches import blocks_in
from ampclient.errors import ConnectionFailed, StatusError, StepsMissing, UnexpectedAnswer
from ampclient.retry import PATIENCE_S, Attempts
from ampclient.transport import Transport

if TYPE_CHECKING:
    from ampcore.series import StepBlock


class StepReader:
    """Reads on from where it stopped, behind the last step that came."""

    def __init__(self, transport: Transport, job_id: str, wanted: calls.StepRange) -> None:
        self._transport = transport
        self._job_id = job_id
        self._left = wanted

    async def read(self, *, patience_s: float = PATIENCE_S) -> AsyncGenerator["StepBlock", None]:
        """The steps that are stored now and were not read before, in ascending blocks.

        Raises UnexpectedAnswer for a step that comes again.
        """
        attempts = Attempts(self._stream(), patience_s)
        while True:
            try:
                async with aclosing(self._opened(attempts)) as blocks:
                    async for block in blocks:
                        yield block
            except (ConnectionFailed, StatusError) as error:
                await self._transport.sleep(attempts.delay_s(error))
            else:
                return

    async def _opened(self, attempts: Attempts) -> AsyncGenerator["StepBlock", None]:
        """The blocks of one answer, as far as it goes."""
        async with self._transport.open(self._stream()) as answer:
            async for block in blocks_in(answer):
                self._advance(block)
                yield block
                attempts.begin_anew()  # now, since whoever took the block may have kept it for long

    def _stream(self) -> calls.Request:
        return calls.stream_steps(self._job_id, self._left, calls.ARROW)

    def _advance(self, block: "StepBlock") -> None:
        if block.first_step < self._left.first:
            raise UnexpectedAnswer(
                f"Expected step {self._left.first} or a later one next, "
                f"received step {block.first_step}."
            )
        self._left = replace(self._left, start=None, after=block.end_step - 1)


def joined(blocks: Sequence["StepBlock"], wanted: calls.StepRange) -> "StepBlock":
    """One block out of consecutive ones; without any, one without steps. Raises StepsMissing."""
    from ampcore.series import COLUMNS, StepBlock

    if not blocks:
        names = [name for name in wanted.columns or COLUMNS if name != "step"]
        return StepBlock(wanted.first, {name: [] for name in names})
    for before, after in pairwise(blocks):
        if before.end_step != after.first_step:
            raise StepsMissing(
                f"Expected steps without a gap, received none from {before.end_step} to "
                f"{after.first_step - 1}; iter_steps gives the blocks before and behind."
            )
    return StepBlock.concat(blocks)
