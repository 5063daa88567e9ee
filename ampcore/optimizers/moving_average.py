"""An exponential moving average of the weights, kept among an optimizer's variables.

average ← m · average + (1 − m) · weight after every update, in float32, as in Keras: it starts with
the weights after the first update. So it has no bias towards 0, as Adam's moments have, but one
towards those weights: after t updates their share is m^(t − 1).

The averages of table rows that an update does not touch are brought up to date lazily, when they
are next touched or read: after k updates without a change of the weight, average = weight + m^k ·
(average − weight).

Source: Polyak and Juditsky 1992, doi:10.1137/0330046; Keras, optimizers/base_optimizer.py.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import tensorflow as tf

from ampcore.optimizers import sparse_rows

Tensor = Any


class MovingAverage(NamedTuple):
    """The average of one variable, float32, and for each of its rows the updates it has seen.

    `seen` (rows,), int64, is 0 where no lazy update is needed: in variables whose
    gradients are dense, and in rows that were never touched.
    """

    value: Any
    seen: Any


def averaged(optimizer: Any, variables: Iterable[Any]) -> list[Any]:
    """The values to evaluate with: the averages, in the variables' dtypes.

    Without averages they are the variables' own values: tf.Variables, no copies, so that rows can
    still be gathered from a table.
    """
    return [
        variable.value if average_of(optimizer, variable) is None else _current(optimizer, variable)
        for variable in variables
    ]


def assign_averages(optimizer: Any, variables: Iterable[Any]) -> None:
    """Replace the weights by the averages, at the end of training; nothing without averages."""
    variables = list(variables)
    if getattr(optimizer, "use_ema", False):
        optimizer.finalize_variable_values(variables)
    for variable in variables:
        average = average_of(optimizer, variable)
        if average is None:
            continue
        value = _average(optimizer, variable)
        variable.assign(tf.cast(value, variable.dtype))
        average.value.assign(value)
        average.seen.assign(tf.zeros_like(average.seen))


def average_of(optimizer: Any, variable: Any) -> MovingAverage | None:
    """The average of a variable; None without one, and in an optimizer of Keras."""
    return optimizer.average_of(variable) if hasattr(optimizer, "average_of") else None


def update(
    average: MovingAverage, weight: Any, ema: float, updates: Tensor, applied: Tensor | None
) -> None:
    """Update the average of a densely updated weight; `updates` is the number of updates before.

    If the update was not `applied`, nothing changes.
    """
    gap = average.value.value - tf.cast(weight, tf.float32)
    change = gap * (1.0 - _momentum(ema, updates))
    average.value.value.assign_sub(change if applied is None else tf.where(applied, change, 0.0))


def update_rows(
    average: MovingAverage,
    touched: Tensor,
    old_rows: Tensor,
    new_rows: Tensor,
    *,
    ema: float,
    updates: Tensor,
    applied: Tensor | None,
) -> None:
    """Update the average of the `touched` rows (n,), changed from `old_rows` (n, …) to `new_rows`.

    Where the update was not `applied`, nothing changes.
    """
    variables = [average.value.value, average.seen.value]
    value, seen = sparse_rows.gather(variables, touched)
    moved = _caught_up(old_rows, value, seen, ema, updates)
    moved = new_rows + _momentum(ema, updates) * (moved - new_rows)
    now = tf.fill(tf.shape(seen), updates + 1)
    sparse_rows.scatter(
        variables, touched, sparse_rows.select(applied, [moved, now], [value, seen])
    )


def _momentum(ema: float, updates: Tensor) -> Tensor:
    """0 in the first update, which the average starts with."""
    return tf.where(updates > 0, ema, 0.0)


def _caught_up(
    weight: Tensor, average: Tensor, seen: Tensor, ema: float, updates: Tensor
) -> Tensor:
    """The average of rows brought up to date to `updates`, of which it has `seen` fewer."""
    missed = tf.where(seen > 0, updates - seen, 0)
    missed = tf.reshape(missed, [-1] + [1] * (weight.shape.rank - 1))
    difference = tf.pow(ema, tf.cast(missed, tf.float32)) * (average - weight)
    # Exactly the average if it is up to date.
    return tf.where(missed == 0, average, weight + difference)


def _current(optimizer: Any, variable: Any) -> Tensor:
    return tf.cast(_average(optimizer, variable), variable.dtype)


def _average(optimizer: Any, variable: Any) -> Tensor:
    average = optimizer.average_of(variable)
    value, seen = (tf.convert_to_tensor(part.value) for part in average)
    if not seen.shape.rank:
        return value
    weight = tf.cast(variable.value, tf.float32)
    return _caught_up(weight, value, seen, optimizer.ema, optimizer.iterations.value)
