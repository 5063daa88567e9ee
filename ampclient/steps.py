"""Read the steps of a job: page after page, without a gap and without a repeat."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ampclient import calls
from ampclient.errors import UnexpectedAnswer
from ampclient.retry import PATIENCE_S
from ampclient.transport import Transport

if TYPE_CHECKING:
    from ampcore.series import StepBlock


@dataclass(frozen=True)
class StepRange:
    """Which steps: from `start` to before `end`, after `after`; which columns; of which attempt."""

    start: int | None = None
    end: int | None = None
    after: int | None = None
    columns: Sequence[str] | None = None
    attempt: int | None = None

    def __post_init__(self) -> None:
        if self.columns is not None and not set(self.columns) - {"step"}:
            raise ValueError("expected at least one column beside 'step', received none")

    def behind(self, block: "StepBlock") -> "StepRange":
        """What is left to read when `block` has been read."""
        return replace(self, start=None, after=block.end_step - 1)

    def empty(self) -> "StepBlock":
        """A block of this range's columns, without a step."""
        from ampcore.series import COLUMNS, StepBlock

        names = [name for name in self.columns or COLUMNS if name != "step"]
        first_step = max(self.start or 0, 0 if self.after is None else self.after + 1)
        return StepBlock(first_step, {name: [] for name in names})


class StepReader:
    """Reads on from where it stopped; `wanted` is what has not been read yet."""

    def __init__(self, transport: Transport, job_id: str, wanted: StepRange) -> None:
        self._transport = transport
        self._job_id = job_id
        self.wanted = wanted
        self._next_step: int | None = None

    def read(self, *, patience_s: float = PATIENCE_S) -> Iterator["StepBlock"]:
        """The blocks that are stored now and were not read before."""
        more = True
        while more:
            page = self._transport.send(self._call(), patience_s=patience_s)
            more = page.more and page.block is not None
            if page.block is not None:
                self._advance(page.block)
                yield page.block

    def _call(self) -> calls.Call[calls.StepsPage]:
        wanted = self.wanted
        return calls.get_steps(
            self._job_id,
            start=wanted.start,
            end=wanted.end,
            after=wanted.after,
            columns=wanted.columns,
            attempt=wanted.attempt,
        )

    def _advance(self, block: "StepBlock") -> None:
        if self._next_step is not None and block.first_step != self._next_step:
            raise UnexpectedAnswer(
                f"Expected step {self._next_step} next, received step {block.first_step}."
            )
        self._next_step = block.end_step
        self.wanted = self.wanted.behind(block)
