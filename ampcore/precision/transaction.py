"""All-or-nothing updates: apply a step completely if its gradients are finite, else skip it."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

import keras
import tensorflow as tf

from ampcore.phase_scopes import phase_scope
from ampcore.phases import Phase
from ampcore.precision.finite import each_finite
from ampcore.precision.loss_scale import LossScale, LossScaleState, LossScaleStates
from ampcore.precision.lowering import GRAPH, Assignments, Lowering, OptimizerUpdate

Tensor = Any
UpdateGroup = tuple[Any, Sequence[Any], Sequence[Any]]
"""An optimizer, unscaled gradients, and the variables they belong to."""


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
        groups: An optimizer, its unscaled gradients and their variables, for each group.
        state_updates: Variables with new values that are committed together with the step.

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
    updates = [
        OptimizerUpdate.of(*group, checks_finite=loss_scale.checks_finite)
        for group, loss_scale in zip(groups, loss_scales, strict=True)
    ]
    return commit_or_skip(loss_scales, states, updates, list(state_updates), lowering=GRAPH)


def commit_or_skip(
    loss_scales: Sequence[LossScale],
    states: Sequence[LossScaleState],
    updates: Sequence[OptimizerUpdate],
    state_updates: Assignments,
    *,
    lowering: Lowering,
) -> Outcome:
    """Apply every update if all gradients that are checked are finite, else change nothing.

    Args:
        loss_scales: One for each update.
        states: Their states in this step.
        updates: One for each optimizer.
        state_updates: Variables with the values that they take in an applied step.
        lowering: How norms and the update are written for the compiler in use.

    Raises:
        ValueError: As `apply_all_if_finite`.
    """
    for update in updates:
        _check_optimizer(update.optimizer)
        _build(update)
    checked = [update for update in updates if update.checks_finite]
    with phase_scope(Phase.CHECK):
        flags = iter(
            each_finite(
                [update.recompute_gradients or update.gradients for update in checked],
                [
                    lowering.global_norm(update.gradients) if update.norm is None else update.norm
                    for update in checked
                ],
            )
        )
        finite = tuple(
            next(flags) if update.checks_finite else tf.constant(True) for update in updates
        )
        applied = tf.reduce_all(finite)
    with phase_scope(Phase.UPDATE):
        lowering.commit(applied if checked else None, updates, state_updates)
        adjusted = tuple(
            loss_scale.adjust(state, flag)
            for loss_scale, state, flag in zip(loss_scales, states, finite, strict=True)
        )
    return Outcome(adjusted, applied, finite)


def _check_optimizer(optimizer: Any) -> None:
    factor = getattr(optimizer, "loss_scale_factor", None)
    if factor is not None:
        _refuse_scaling_optimizer(f"{type(optimizer).__name__} with loss_scale_factor={factor}")
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        _refuse_scaling_optimizer("LossScaleOptimizer (pass its inner_optimizer instead)")
    if tf.distribute.has_strategy() and not hasattr(optimizer, "apply_where"):
        raise ValueError(
            "Expected no tf.distribute strategy around an optimizer of Keras: it would add up "
            "the gradients of all ranks after they were checked. "
            f"Received: {type(tf.distribute.get_strategy()).__name__}"
        )


def _refuse_scaling_optimizer(received: str) -> NoReturn:
    raise ValueError(
        "Expected optimizers without a loss scale of their own: the gradients are unscaled "
        f"already and would be divided twice. Received: {received}"
    )


def _build(update: OptimizerUpdate) -> None:
    """Build the optimizer: slots must exist before the branch that uses them is traced."""
    if not update.optimizer.built:
        with tf.init_scope():
            update.optimizer.build(list(update.variables))
