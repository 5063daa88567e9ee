"""Marks: where the blocks lay that were merged into one, and what was known of each.

They let a reader who stopped between two of the blocks go on there, and add up what happened
before any of them, without a look at the steps.
"""

from collections.abc import Sequence
from dataclasses import astuple, fields, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ampcore.series import packed
from ampcore.series.block import Facts

MARK: Final = np.dtype(
    [
        ("seq", np.int64),
        ("end_step", np.int64),
        ("skipped", np.int64),
        ("examples", np.int64),
        ("duration_s", np.float64),
        ("skipped_s", np.float64),
        ("best_loss", np.float64),
    ]
)
"""Of one block: its place in the job's stream, the step behind its last, how many of its steps were
skipped, the examples they saw, the seconds they took, those of the skipped ones, and the least
finite loss (NaN: there was none)."""

Marks = NDArray[Any]
"""One MARK for each block, in order."""

FACTS: Final = tuple(each.name for each in fields(Facts))
ASCENDING: Final = ("seq", "end_step")
"""Stored as differences, which are small."""


def marks_of(blocks: Sequence[tuple[int, int, Facts]]) -> Marks:
    """Marks of blocks: the seq and the end step of each, and its facts."""
    return np.array(
        [
            (seq, end_step, *(np.nan if fact is None else fact for fact in astuple(facts)))
            for seq, end_step, facts in blocks
        ],
        MARK,
    )


def facts_of(mark: Any) -> Facts:
    """What was known of one of the blocks."""
    facts = Facts(*(mark[name].item() for name in FACTS))
    return replace(facts, best_loss=None) if np.isnan(mark["best_loss"]) else facts


def pack_marks(marks: Marks) -> bytes:
    """Marks as bytes."""
    return packed.pack(
        {
            name: np.diff(marks[name], prepend=0) if name in ASCENDING else marks[name]
            for name in MARK.names or ()
        }
    )


def unpack_marks(payload: bytes) -> Marks:
    """The marks that `pack_marks` made into `payload`."""
    columns = packed.unpack(payload)
    marks = np.empty(len(columns["seq"]), MARK)
    for name, column in columns.items():
        marks[name] = np.cumsum(column) if name in ASCENDING else column
    return marks
