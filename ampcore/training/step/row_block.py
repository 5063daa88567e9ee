"""Converts the rows of the training loop into a block of steps."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ampspec.telemetry import COLUMN_DTYPES, StepBlock


def step_block(
    first_step: int,
    columns: Sequence[str],
    rows: NDArray[np.float32],
    seconds: float,
    examples: int,
) -> StepBlock:
    """The block of steps that took `seconds` in total; one row per step, with `examples` each."""
    count = len(rows)
    values = {name: rows[:, index] for index, name in enumerate(columns)}
    shared = {
        "step_time_s": np.full(count, seconds / count),
        "examples": np.full(count, examples),
    }
    return StepBlock(first_step, {name: (values | shared)[name] for name in _ordered(columns)})


def _ordered(columns: Sequence[str]) -> list[str]:
    """The columns of every block first, then the extras."""
    return [*COLUMN_DTYPES, *(name for name in columns if name not in COLUMN_DTYPES)]
