"""An update that happens as a whole or not at all."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

import keras
import tensorflow as tf

from ampcore.precision.finite import each_finite, global_norm
from ampcore.precision.loss_scale import LossScale, LossScaleState
from ampcore.precision.overwrites import without_overwrites

Tensor = Any
Group = tuple[Any, Sequence[Any], Sequence[Any]]
"""An optimizer, unscaled gradients, and the variables they belong to."""


class Outcome(NamedTuple):
    """What became of a step: the states of the next one, one for each loss scale, and the flags.

    `finite` says of each group whether its gradients were; booleans are scalar tensors.
    """

    states: tuple[LossScaleState, ...]
    applied: Tensor
    finite: tuple[Tensor, ...]


def apply_if_finite(
    scale: LossScale,
    state: LossScaleState,
    groups: Sequence[Group],
    also: Iterable[tuple[Any, Tensor]] = (),
) -> tuple[LossScaleState, Tensor]:
    """Apply the gradients of every group if all of them are finite, else change nothing.

    As `apply_together`, for groups whose gradients were all scaled by the same loss scale.
    Returns its adjusted state and whether the step was applied.
    """
    states = [state] * len(groups)
    outcome = apply_together([scale] * len(groups), states, groups, also)
    # A group's own finiteness moves its own scale; the one scale here follows the whole step.
    return scale.adjust(state, outcome.applied), outcome.applied


def apply_together(
    scales: Sequence[LossScale],
    states: Sequence[LossScaleState],
    groups: Sequence[Group],
    also: Iterable[tuple[Any, Tensor]] = (),
    norms: Sequence[Tensor] | None = None,
    *,
    xla: bool = False,
    remade: Sequence[Callable[[], Sequence[Any]]] | None = None,
) -> Outcome:
    """Apply the gradients of every group, each under its own loss scale, or change nothing.

    The step is applied when the gradients of all groups are finite; each scale is adjusted by
    those of its own group. A skipped step leaves weights, slots and iteration counts of all
    optimizers as they were. Groups without a finite check (NoLossScale) hold nothing back.

    A variable that is overwritten with its "gradient" (a float8 scale or amax history) takes its
    new value in an applied step; whether that is finite is not asked, and neither norms nor
    `remade` may know it.

    `also` are (variable, new value) pairs to commit together with the step: what
    `model.stateless_call` returns for BatchNorm statistics and dropout seeds. A forward pass
    that assigns them itself cannot be taken back. `norms` are the global norms of the groups'
    gradients, where they are known: a finite one spares another look at the gradients.
    `xla` says that XLA will compile the step; the optimizers must be ampcore's own then. `remade`
    make each group's gradients, unclipped, once more, for a look that is seldom needed.

    Raises ValueError for an optimizer that would unscale the gradients once more.
    """
    also = list(also)
    _check(groups, xla=xla)
    _build(groups)
    gradients = [without_overwrites(grads, variables) for _, grads, variables in groups]
    finite = _finite(scales, gradients, norms, remade)
    applied = tf.reduce_all(finite)
    if xla:
        _commit_where(applied, groups, also)
    elif any(scale.checks_finite for scale in scales):
        _commit_if(applied, groups, also)
    else:
        _commit(groups, also)
    adjusted = (
        scale.adjust(state, flag) for scale, state, flag in zip(scales, states, finite, strict=True)
    )
    return Outcome(tuple(adjusted), applied, finite)


def _finite(
    scales: Sequence[LossScale],
    groups: Sequence[Sequence[Any]],
    norms: Sequence[Tensor] | None,
    remade: Sequence[Callable[[], Sequence[Any]]] | None,
) -> tuple[Tensor, ...]:
    """Whether the gradients of each group are finite; true of those that are not checked."""
    checked = [index for index, scale in enumerate(scales) if scale.checks_finite]
    known = [norms[index] if norms else global_norm(groups[index]) for index in checked]
    flags = each_finite([(remade or groups)[index] for index in checked], known)
    by_index = dict(zip(checked, flags, strict=True))
    return tuple(by_index.get(index, tf.constant(True)) for index in range(len(groups)))


def _check(groups: Sequence[Group], *, xla: bool) -> None:
    for optimizer, *_ in groups:
        factor = getattr(optimizer, "loss_scale_factor", None)
        if factor is not None:
            _refuse(f"{type(optimizer).__name__} with loss_scale_factor={factor}")
        if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
            _refuse("LossScaleOptimizer; its inner_optimizer will do")
        if xla and not hasattr(optimizer, "apply_where"):
            raise ValueError(
                "Expected optimizers of ampcore.optimizers where xla=True. "
                f"Received: {type(optimizer).__name__}"
            )


def _refuse(received: str) -> NoReturn:
    raise ValueError(
        "Expected optimizers without a loss scale of their own: the gradients are unscaled "
        f"already, and would be divided a second time. Received: {received}"
    )


def _build(groups: Sequence[Group]) -> None:
    """Slots must exist before the branch that may or may not use them is traced."""
    for optimizer, _, variables in groups:
        if not optimizer.built:
            with tf.init_scope():
                optimizer.build(list(variables))


def _commit_if(
    applied: Tensor, groups: Sequence[Group], also: Sequence[tuple[Any, Tensor]]
) -> None:
    def commit() -> Tensor:
        _commit(groups, also)
        return tf.constant(True)

    tf.cond(applied, commit, lambda: tf.constant(False))


def _commit_where(
    applied: Tensor, groups: Sequence[Group], also: Sequence[tuple[Any, Tensor]]
) -> None:
    """Commit by choosing between old and new values, which costs XLA less than a branch."""
    for optimizer, grads, variables in groups:
        optimizer.apply_where(applied, list(grads), list(variables))
    for variable, value in also:
        variable.assign(tf.where(applied, value, tf.convert_to_tensor(variable.value)))


def _commit(groups: Sequence[Group], also: Sequence[tuple[Any, Tensor]]) -> None:
    for optimizer, grads, variables in groups:
        optimizer.apply(list(grads), list(variables))
    for variable, value in also:
        variable.assign(value)
