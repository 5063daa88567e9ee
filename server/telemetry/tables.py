"""Columns of values over points, each a step or a bucket of them: what is written in every form."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ampcore.series import StepBlock
from ampcore.series.block import absent
from ampcore.series.buckets import SKIPPED, Buckets

Table = Mapping[str, NDArray[Any]]
"""Arrays of one length by their names; `step` comes first and ascends."""

SHOWN: Final = ("min", "max", "first", "last", "mean")
"""Of a column of buckets; `loss.min` and so on."""


def of_steps(block: StepBlock, names: Sequence[str]) -> Table:
    """Every step by itself; a column that is not there is `absent`."""
    return {"step": block["step"]} | {
        name: block[name] if name in block else absent(name, len(block)) for name in names
    }


def of_buckets(buckets: Buckets, names: Sequence[str]) -> Table:
    """Buckets: their first steps, how many steps they hold, how many of these were skipped."""
    table: dict[str, NDArray[Any]] = {
        "step": buckets.starts,
        "count": buckets.counts,
        SKIPPED: buckets.skipped,
    }
    for name in names:
        if name != SKIPPED:
            for part in SHOWN:
                table[f"{name}.{part}"] = _part(buckets, name, part)
    return table


def joined(tables: Sequence[Table]) -> Table:
    """One behind the other; all have the same names."""
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def _part(buckets: Buckets, name: str, part: str) -> NDArray[Any]:
    if name not in buckets:
        return np.full(len(buckets), np.nan, np.float32)
    values: NDArray[Any] = getattr(buckets[name], part)
    # A mean of float32 values has no more digits than they.
    return values.astype(np.float32) if part == "mean" else values
