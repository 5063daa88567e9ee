"""`StepsEvent`: a block of steps in the event stream of a job."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from ampspec.telemetry import StepBlock
from ampspec.telemetry.json_values import column_from_json
from ampspec.telemetry.steps.block import Column


class StepsEvent(StepBlock):
    """A StepBlock with the `attempt` that ran its steps and its `seq` in the event stream."""

    def __init__(
        self,
        first_step: int,
        columns: Mapping[str, Column | Sequence[Any]],
        *,
        attempt: int,
        seq: int,
        steps: Sequence[int] | None = None,
    ) -> None:
        super().__init__(first_step, columns, steps)
        self.attempt = attempt
        self.seq = seq

    def __repr__(self) -> str:
        return f"{super().__repr__().removesuffix('>')}; attempt {self.attempt}, seq {self.seq}>"

    @classmethod
    def concat(cls, blocks: Sequence[StepBlock]) -> StepBlock:
        """Join ascending blocks into a StepBlock, which has no `seq`."""
        return StepBlock.concat(blocks)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Parse an event. Raises KeyError, TypeError or ValueError if it is invalid."""
        lists = {name: column_from_json(values) for name, values in document["data"].items()}
        steps = lists.pop("step", None)
        attempt, seq = document["attempt"], document["seq"]
        return cls(document["first_step"], lists, attempt=attempt, seq=seq, steps=steps)
