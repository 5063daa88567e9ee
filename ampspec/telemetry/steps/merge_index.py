"""The merge index of a compacted block: the position and the sums of each block merged into it.

A reader that stopped between two of the blocks continues there, and gets the sums before a block
without reading the steps.
"""

from collections.abc import Sequence
from dataclasses import astuple, fields, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ampspec.telemetry.steps import array_codec
from ampspec.telemetry.steps.block import BlockStats

MERGE_ENTRY: Final = np.dtype(
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
"""One block: its sequence number in the job's stream, the step after its last, its skipped steps,
its examples, its seconds, the seconds of skipped steps, and its lowest finite loss (NaN: none)."""

MergeIndex = NDArray[Any]
"""One MERGE_ENTRY for each block, in order."""

STATS_FIELDS: Final = tuple(column.name for column in fields(BlockStats))
DELTA_FIELDS: Final = ("seq", "end_step")
"""Stored as differences, which are small."""


def build_merge_index(blocks: Sequence[tuple[int, int, BlockStats]]) -> MergeIndex:
    """The index of blocks, each given by its seq, its end step and its sums."""
    return np.array(
        [
            (seq, end_step, *(np.nan if value is None else value for value in astuple(stats)))
            for seq, end_step, stats in blocks
        ],
        MERGE_ENTRY,
    )


def entry_stats(entry: Any) -> BlockStats:
    """The sums of one of the blocks."""
    stats = BlockStats(*(entry[name].item() for name in STATS_FIELDS))
    return replace(stats, best_loss=None) if np.isnan(entry["best_loss"]) else stats


def encode_merge_index(merge_index: MergeIndex) -> bytes:
    """The index as bytes."""
    return array_codec.encode(
        {
            name: np.diff(merge_index[name], prepend=0)
            if name in DELTA_FIELDS
            else merge_index[name]
            for name in MERGE_ENTRY.names or ()
        }
    )


def decode_merge_index(payload: bytes) -> MergeIndex:
    """The index that `encode_merge_index` wrote to `payload`."""
    columns = array_codec.decode(payload)
    merge_index = np.empty(len(columns["seq"]), MERGE_ENTRY)
    for name, column in columns.items():
        merge_index[name] = np.cumsum(column) if name in DELTA_FIELDS else column
    return merge_index
