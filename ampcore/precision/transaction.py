"""An update that happens as a whole or not at all."""

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from ampcore.precision.finite import all_finite
from ampcore.precision.loss_scale import LossScale, LossScaleState

Tensor = Any
Group = tuple[Any, Sequence[Any], Sequence[Any]]
"""An optimizer, unscaled gradients, and the variables they belong to."""


def apply_if_finite(
    scale: LossScale,
    state: LossScaleState,
    groups: Sequence[Group],
    also: Iterable[tuple[Any, Tensor]] = (),
) -> tuple[LossScaleState, Tensor]:
    """Apply the gradients of every group if all of them are finite, else change nothing.

    A skipped step leaves weights, slots and iteration counts of all optimizers as they were.
    `also` are (variable, new value) pairs to commit together with the step: what
    `model.stateless_call` returns for BatchNorm statistics and dropout seeds. A forward pass
    that assigns them itself cannot be taken back.

    Returns the adjusted state and whether the step was applied. Without a finite check
    (NoLossScale) the step is always applied.
    """
    also = list(also)
    _build(groups)
    if not scale.checks_finite:
        _commit(groups, also)
        return state, tf.constant(True)
    finite = all_finite([grad for _, grads, _ in groups for grad in grads])

    def commit() -> Tensor:
        _commit(groups, also)
        return tf.constant(True)

    tf.cond(finite, commit, lambda: tf.constant(False))
    return scale.adjust(state, finite), finite


def _build(groups: Sequence[Group]) -> None:
    """Slots must exist before the branch that may or may not use them is traced."""
    for optimizer, _, variables in groups:
        if not optimizer.built:
            with tf.init_scope():
                optimizer.build(list(variables))


def _commit(groups: Sequence[Group], also: Sequence[tuple[Any, Tensor]]) -> None:
    for optimizer, grads, variables in groups:
        optimizer.apply(list(grads), list(variables))
    for variable, value in also:
        variable.assign(value)
