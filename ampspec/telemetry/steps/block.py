"""StepBlock: columns of per-step values over ascending steps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ampspec.telemetry.steps.missing import MISSING

COLUMN_DTYPES: Final[dict[str, DTypeLike]] = {
    "loss": np.float32,
    "loss_scale": np.float32,
    "skipped": np.bool_,
    "grad_norm": np.float32,
    "learning_rate": np.float32,
    "step_time_s": np.float32,
    "examples": np.int32,
}
"""The columns of every block and their dtypes. All others, `loss/generator` or a new one, are
float32, and need no line here."""
LATEST_COLUMNS: Final = ("loss", "loss_scale", "grad_norm", "learning_rate")
"""The columns whose last values a job shows."""

Column = NDArray[Any]


def missing_column(name: str, count: int) -> Column:
    """The values of a missing column: MISSING `count` times, or 0 if the dtype has no NaN."""
    dtype = np.dtype(COLUMN_DTYPES.get(name, np.float32))
    return np.full(count, MISSING, dtype) if dtype.kind == "f" else np.zeros(count, dtype)


@dataclass(frozen=True)
class BlockStats:
    """Sums over the steps of a block.

    `duration_s` is how long the steps took, `skipped_s` how long the skipped ones took;
    `best_loss` is the smallest finite loss, None without one.
    """

    skipped: int = 0
    examples: int = 0
    duration_s: float = 0.0
    skipped_s: float = 0.0
    best_loss: float | None = None


class StepBlock:
    """Values of ascending steps: `first_step`, `first_step` + 1, …, or the numbers in `steps`.

    The steps of a job have no gaps. A program that logs every tenth step of its loop has only
    these; `steps` holds their numbers, and `first_step` is the first of them.

    `block["loss"]` is a NumPy array with one value a step: `loss` (unscaled), `loss_scale`
    (the scale that the step used; 1 without scaling), `skipped` (True: the step changed
    nothing), `grad_norm` (global L2 norm, unscaled, before clipping), `learning_rate`,
    `step_time_s` (seconds; within one call of the compiled loop the steps share its mean) and
    `examples`. `block["step"]` is derived.
    """

    def __init__(
        self,
        first_step: int,
        columns: Mapping[str, Column | Sequence[Any]],
        steps: Column | Sequence[int] | None = None,
    ) -> None:
        arrays = {
            name: np.asarray(values, dtype=COLUMN_DTYPES.get(name, np.float32))
            for name, values in columns.items()
        }
        lengths = {name: len(array) for name, array in arrays.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"expected columns of one length, received lengths {lengths}")
        if first_step < 0:
            raise ValueError(f"expected first_step of 0 or more, received {first_step}")
        self.first_step = first_step
        self._columns = arrays
        self._steps = None if steps is None else _numbers_of_steps(first_step, steps, len(self))

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    def __getitem__(self, name: str) -> Column:
        if name == "step":
            if self._steps is not None:
                return self._steps
            return np.arange(self.first_step, self.end_step, dtype=np.int64)
        try:
            return self._columns[name]
        except KeyError:
            raise KeyError(
                f"unknown column {name!r}; available: step, {', '.join(self.names)}"
            ) from None

    def __contains__(self, name: object) -> bool:
        return name == "step" or name in self._columns

    def __repr__(self) -> str:
        return f"<StepBlock steps {self.first_step}–{self.end_step - 1}: {', '.join(self.names)}>"

    def __eq__(self, value: object) -> bool:
        """Equal steps, names and values; NaN equals NaN."""
        if not isinstance(value, StepBlock):
            return NotImplemented
        return (
            np.array_equal(self["step"], value["step"])
            and self.first_step == value.first_step
            and self.names == value.names
            and all(
                np.array_equal(self[name], value[name], equal_nan=name != "skipped")
                for name in self.names
            )
        )

    __hash__ = None  # type: ignore[assignment]  # holds mutable arrays

    @property
    def end_step(self) -> int:
        """The step after the last one."""
        if self._steps is not None:
            return int(self._steps[-1]) + 1
        return self.first_step + len(self)

    @property
    def has_gaps(self) -> bool:
        """Whether steps between the first and the last one are not in the block."""
        return self._steps is not None

    @property
    def names(self) -> tuple[str, ...]:
        """The stored columns, without the derived `step`."""
        return tuple(self._columns)

    @property
    def examples_per_s(self) -> float:
        """Throughput over the whole block; 0 for an empty one."""
        seconds = float(np.sum(self["step_time_s"], dtype=np.float64))
        return float(np.sum(self["examples"], dtype=np.int64)) / seconds if seconds > 0 else 0.0

    @property
    def stats(self) -> BlockStats:
        """Sums over the steps; a missing column counts as 0."""
        skipped = self._column_or_zeros("skipped", np.bool_)
        seconds = self._column_or_zeros("step_time_s", np.float64)
        losses = self._columns.get("loss", np.empty(0, np.float32))
        losses = losses[np.isfinite(losses)]
        return BlockStats(
            int(skipped.sum()),
            int(self._column_or_zeros("examples", np.int64).sum()),
            float(seconds.sum()),
            float(seconds[skipped].sum()),
            float(losses.min()) if len(losses) else None,
        )

    def _column_or_zeros(self, name: str, dtype: DTypeLike) -> Column:
        return self._columns.get(name, np.zeros(len(self), dtype)).astype(dtype)

    def select(self, names: Sequence[str]) -> "StepBlock":
        """The same steps with only the named columns, in that order; KeyError for unknown names."""
        columns = {name: self[name] for name in names if name != "step"}
        return StepBlock(self.first_step, columns, self._steps if columns else None)

    def between(self, start: int, end: int) -> "StepBlock":
        """The steps s of this block with `start` ≤ s < `end`; may be empty."""
        if self._steps is not None:
            low, high = np.searchsorted(self._steps, (start, max(start, end)))
        else:
            low = min(max(start - self.first_step, 0), len(self))
            high = min(max(end - self.first_step, low), len(self))
        columns = {name: array[low:high] for name, array in self._columns.items()}
        if self._steps is None or low == high:
            return StepBlock(self.first_step + int(low), columns)
        steps = self._steps[low:high]
        return StepBlock(int(steps[0]), columns, steps)

    def head(self, count: int) -> "StepBlock":
        """The first `count` steps of the block, or all if there are fewer."""
        if count >= len(self):
            return self
        return self.between(self.first_step, int(self["step"][max(count, 0)]))

    def rows(self) -> Iterator[dict[str, Any]]:
        """One dict of plain Python values a step, `step` first."""
        lists = {name: self[name].tolist() for name in ("step", *self.names)}
        for values in zip(*lists.values(), strict=True):
            yield dict(zip(lists, values, strict=True))

    def to_pandas(self) -> Any:
        """A pandas.DataFrame indexed by step; needs pandas installed."""
        try:
            import pandas
        except ModuleNotFoundError:
            raise ModuleNotFoundError("to_pandas needs pandas: pip install pandas") from None

        columns = {name: self[name] for name in self.names}
        return pandas.DataFrame(columns, index=pandas.Index(self["step"], name="step"))

    def to_arrow(self) -> Any:
        """A pyarrow.Table, `step` first."""
        import pyarrow

        from ampspec.telemetry.steps.arrow_arrays import to_arrow

        return pyarrow.table({name: to_arrow(self[name]) for name in ("step", *self.names)})

    @classmethod
    def concat(cls, blocks: Sequence["StepBlock"]) -> "StepBlock":
        """Join ascending blocks into one, with gaps where steps between two blocks are missing.

        A column that some of the blocks lack is `missing_column` there. Raises ValueError on an
        overlap.
        """
        blocks = [block for block in blocks if len(block)]
        if not blocks:
            return cls(0, {name: [] for name in COLUMN_DTYPES})
        for block, next_block in pairwise(blocks):
            if block.end_step > next_block.first_step:
                raise ValueError(
                    f"expected a block that starts at step {block.end_step} or later, "
                    f"received one that starts at {next_block.first_step}"
                )
        names = dict.fromkeys(name for block in blocks for name in block.names)
        length = sum(len(block) for block in blocks)
        columns = {name: missing_column(name, length) for name in names}
        start = 0
        for block in blocks:  # the time is proportional to the cells, even if the columns differ
            end = start + len(block)
            for name in block.names:
                columns[name][start:end] = block[name]
            start = end
        if blocks[-1].end_step - blocks[0].first_step == length:
            return StepBlock(blocks[0].first_step, columns)
        steps = np.concatenate([block["step"] for block in blocks])
        return StepBlock(blocks[0].first_step, columns, steps)


def _numbers_of_steps(
    first_step: int, steps: Column | Sequence[int], length: int
) -> NDArray[np.int64] | None:
    """The numbers of the steps of a block; None if they are consecutive. Raises ValueError."""
    numbers = np.asarray(steps, np.int64)
    if len(numbers) != length:
        raise ValueError(f"expected {length} numbers of steps, received {len(numbers)}")
    if not length:
        return None
    if numbers[0] != first_step or (np.diff(numbers) < 1).any():
        raise ValueError(
            f"expected ascending numbers of steps from {first_step} on, "
            f"received {numbers[:5].tolist()}"
        )
    return None if numbers[-1] - first_step + 1 == length else numbers
