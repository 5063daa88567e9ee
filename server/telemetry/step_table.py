"""Tables of steps or buckets: named columns of equal length, the input of every format."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ampspec.telemetry import StepBlock
from ampspec.telemetry.steps.block import missing_column
from ampspec.telemetry.steps.buckets import SKIPPED, Buckets
from ampspec.telemetry.steps.missing import MISSING

StepTable = Mapping[str, NDArray[Any]]
"""Arrays of equal length by name; `step` comes first and ascends."""

BUCKET_STATISTICS: Final = ("min", "max", "first", "last", "mean")
"""The columns that a bucket has for each column of steps: `loss.min` and so on."""


def table_of_steps(block: StepBlock, names: Sequence[str]) -> StepTable:
    """One row per step; a column that does not exist is `missing_column`."""
    return {"step": block["step"]} | {
        name: block[name] if name in block else missing_column(name, len(block)) for name in names
    }


def table_of_buckets(buckets: Buckets, names: Sequence[str]) -> StepTable:
    """One row per bucket: its first step, and the number of steps and of skipped steps in it."""
    table: dict[str, NDArray[Any]] = {
        "step": buckets.starts,
        "count": buckets.counts,
        SKIPPED: buckets.skipped,
    }
    for name in names:
        if name != SKIPPED:
            for part in BUCKET_STATISTICS:
                table[f"{name}.{part}"] = _part(buckets, name, part)
    return table


def concat_tables(tables: Sequence[StepTable]) -> StepTable:
    """Concatenate tables with the same columns."""
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def _part(buckets: Buckets, name: str, part: str) -> NDArray[Any]:
    if name not in buckets:
        return np.full(len(buckets), MISSING, np.float32)
    values: NDArray[Any] = getattr(buckets[name], part)
    # A mean of float32 values has no more significant digits than they.
    return values.astype(np.float32) if part == "mean" else values
