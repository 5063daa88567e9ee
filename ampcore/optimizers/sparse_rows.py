"""Gathers and scatters rows of tables, without a tensor of the table's size."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

Tensor = Any


def gather(tables: Sequence[Any], rows: Tensor) -> list[Tensor]:
    """The rows (n,) of each table; 16-bit floats become float32, integers stay."""
    taken = [tf.gather(table, rows) for table in tables]
    return [tf.cast(part, tf.float32) if part.dtype.is_floating else part for part in taken]


def scatter(tables: Sequence[Any], rows: Tensor, values: Sequence[Tensor]) -> None:
    """Overwrite distinct rows (n,) of each table with values rounded to its dtype."""
    for table, value in zip(tables, values, strict=True):
        # Not scatter_sub: on a CPU it takes five times as long.
        tf.raw_ops.ResourceScatterUpdate(
            resource=table.handle, indices=rows, updates=tf.cast(value, table.dtype)
        )


def select(
    applied: Tensor | None, new: Sequence[Tensor], old: Sequence[Tensor]
) -> Sequence[Tensor]:
    """The new values where `applied`, else the old ones; None: the new ones."""
    if applied is None:
        return new
    return [tf.where(applied, *pair) for pair in zip(new, old, strict=True)]
