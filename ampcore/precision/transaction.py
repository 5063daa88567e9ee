"""All-or-nothing updates: apply a step completely if its gradients are finite, else skip it."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

import keras
import tensorflow as tf

from ampcore.precision.finite import each_finite
from ampcore.precision.loss_scale import LossScale, LossScaleState, LossScaleStates
from ampcore.precision.lowering import GRAPH, Lowering, UpdateGroup
from ampcore.precision.overwrite_with_gradient import without_overwrites
from ampcore.profile.phases import Phase
from ampcore.profile.scopes import phase_scope

Tensor = Any


class Outcome(NamedTuple):
    """The outcome of a step.

    Attributes:
        states: The states of the next step, one for each loss scale.
        applied: A boolean scalar: whether the step was applied; if not, only the states changed.
        finite: Boolean scalars: for each group, whether its gradients were finite.
    """

    states: LossScaleStates
    applied: Tensor
    finite: tuple[Tensor, ...]


def apply_if_finite(
    loss_scale: LossScale,
    state: LossScaleState,
    groups: Sequence[UpdateGroup],
    state_updates: Iterable[tuple[Any, Tensor]] = (),
) -> tuple[LossScaleState, Tensor]:
    """Apply the gradients of every group if all of them are finite, else change nothing.

    Args:
        loss_scale: The one loss scale that all gradients were scaled by.
        state: Its state in this step.
        groups: As of `apply_all_if_finite`.
        state_updates: As of `apply_all_if_finite`.

    Returns:
        The adjusted state, and whether the step was applied, a boolean scalar.

    Raises:
        ValueError: As `apply_all_if_finite`.
    """
    states = [state] * len(groups)
    outcome = apply_all_if_finite([loss_scale] * len(groups), states, groups, state_updates)
    # Each group's finiteness adjusts its own scale; here one scale follows the whole step.
    return loss_scale.adjust(state, outcome.applied), outcome.applied


def apply_all_if_finite(
    loss_scales: Sequence[LossScale],
    states: Sequence[LossScaleState],
    groups: Sequence[UpdateGroup],
    state_updates: Iterable[tuple[Any, Tensor]] = (),
) -> Outcome:
    """Apply the gradients of every group, each under its own loss scale, or change nothing.

    The step is applied if the gradients of all groups are finite; each scale is adjusted by the
    gradients of its own group. A skipped step does not change weights, slots and iteration counts
    of any optimizer. Groups without a finite check (NoLossScale) never cause a skip.

    A variable that is overwritten with its "gradient" (a float8 scale or amax history) takes its
    new value in an applied step, which is not checked for finiteness.

    Args:
        loss_scales: One for each group.
        states: Their states in this step.
        groups: An optimizer, its unscaled gradients and their variables, for each group.
        state_updates: Variables with new values that are committed together with the step: what
            `model.stateless_call` returns for BatchNorm statistics and dropout seeds. Assignments
            inside the forward pass could not be undone.

    Raises:
        ValueError: For an optimizer that would unscale the gradients once more, and for one of
            Keras inside a tf.distribute strategy, which would add them up after the check.
    """
    return commit_or_skip(loss_scales, states, groups, state_updates, lowering=GRAPH)


def commit_or_skip(
    loss_scales: Sequence[LossScale],
    states: Sequence[LossScaleState],
    groups: Sequence[UpdateGroup],
    state_updates: Iterable[tuple[Any, Tensor]],
    *,
    lowering: Lowering,
    checks: Sequence[bool] | None = None,
    norms: Sequence[Tensor] | None = None,
    recompute_gradients: Sequence[Callable[[], Sequence[Any]]] | None = None,
) -> Outcome:
    """As `apply_all_if_finite`, with values that a training step has already computed.

    Args:
        loss_scales: One for each group.
        states: Their states in this step.
        groups: An optimizer, its unscaled gradients and their variables, for each group.
        state_updates: Variables with the values that they take in an applied step.
        lowering: How norms and the update are written for the compiler in use.
        checks: For each group, whether gradients that are not finite skip the step; None: if its
            loss scale does.
        norms: The global norms of the groups' gradients, without overwrites: a finite one proves
            that all elements are finite.
        recompute_gradients: For each group, computes its gradients again, unclipped and without
            overwrites: called if a norm is not finite.
    """
    state_updates = list(state_updates)
    _check_optimizers(groups)
    _build(groups)
    gradients = [without_overwrites(grads, variables) for _, grads, variables in groups]
    checks = checks or [loss_scale.checks_finite for loss_scale in loss_scales]
    checked = [index for index, is_checked in enumerate(checks) if is_checked]
    with phase_scope(Phase.CHECK):
        flags = each_finite(
            [(recompute_gradients or gradients)[index] for index in checked],
            [
                norms[index] if norms else lowering.global_norm(gradients[index])
                for index in checked
            ],
        )
        known = dict(zip(checked, flags, strict=True))
        finite = tuple(known.get(index, tf.constant(True)) for index in range(len(groups)))
        applied = tf.reduce_all(finite)
    with phase_scope(Phase.UPDATE):
        lowering.commit(applied if checked else None, groups, state_updates)
        adjusted = tuple(
            loss_scale.adjust(state, flag)
            for loss_scale, state, flag in zip(loss_scales, states, finite, strict=True)
        )
    return Outcome(adjusted, applied, finite)


def _check_optimizers(groups: Sequence[UpdateGroup]) -> None:
    for optimizer, *_ in groups:
        factor = getattr(optimizer, "loss_scale_factor", None)
        if factor is not None:
            _refuse_scaling_optimizer(f"{type(optimizer).__name__} with loss_scale_factor={factor}")
        if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
            _refuse_scaling_optimizer("LossScaleOptimizer (pass its inner_optimizer instead)")
        if tf.distribute.has_strategy() and not hasattr(optimizer, "apply_where"):
            raise ValueError(
                "Expected no tf.distribute strategy around an optimizer of Keras: it would add up "
                "the gradients of all replicas after they were checked. "
                f"Received: {type(tf.distribute.get_strategy()).__name__}"
            )


def _refuse_scaling_optimizer(received: str) -> NoReturn:
    raise ValueError(
        "Expected optimizers without a loss scale of their own: the gradients are unscaled "
        f"already and would be divided twice. Received: {received}"
    )


def _build(groups: Sequence[UpdateGroup]) -> None:
    """Build the optimizers: slots must exist before the branch that uses them is traced."""
    for optimizer, _, variables in groups:
        if not optimizer.built:
            with tf.init_scope():
                optimizer.build(list(variables))
