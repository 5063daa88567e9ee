"""The losses of one batch and their gradients; assigns no variable.

The order is that of Micikevicius et al. 2018, arXiv:1710.03740: float32 weights → 16-bit compute →
float32 loss → times the loss scale → gradients → divided by the loss scale, in float32.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import tensorflow as tf

from ampcore.data import Batch
from ampcore.models.task import NonTrainable, Task
from ampcore.precision import (
    LossScale,
    LossScaleState,
    LossScaleStates,
    only_overwrites,
    without_overwrites,
)
from ampcore.precision.float8_products import recorded_amaxes
from ampcore.profile.phases import Phase
from ampcore.profile.scopes import phase_scope

Tensor = Any


class Gradients(NamedTuple):
    """The losses, gradients and state updates of one batch, for each network in order.

    Attributes:
        losses: Float32 scalars, unscaled.
        gradients: One for each trainable variable, float32 and unscaled; IndexedSlices with
            possible duplicate rows for embedding tables; None for a variable that the loss does not
            depend on, and for one with a value in `overwrites`.
        state_updates: The next values of the non-trainable variables; the same objects where
            nothing changed.
        overwrites: The next values of trainable variables that are overwritten with their
            "gradient" (float8 scales and amax histories); None for all others.
        recompute_gradients: For each network, a function that computes its `gradients` again from
            the scaled ones; None where that takes more than a division. A branch that is rarely
            taken calls it instead of keeping `gradients` in memory.
        amaxes: For each network, those of its `float8_scalings` in this batch, float32 (3,) each.
        shard_norms: For each network with rows of tables that other replicas own, the norm of each
            replica's sparse gradients by its rows, float32 (replicas,); else None. Empty before
            the replicas have exchanged them.
    """

    losses: list[Tensor]
    gradients: list[list[Any]]
    state_updates: NonTrainable
    overwrites: list[list[Any]]
    recompute_gradients: tuple[Callable[[], list[Any]], ...] | None = None
    amaxes: Sequence[Sequence[Tensor]] = ()
    shard_norms: Sequence[Tensor | None] = ()


def gradients(  # noqa: PLR0917 - a function of all of these; a step fixes the first three
    task: Task,
    loss_scales: Sequence[LossScale],
    states: LossScaleStates,
    non_trainable: NonTrainable,
    batch: Batch,
    seed: Tensor,
) -> Gradients:
    """Differentiate the loss of each network with respect to its current weights.

    Duplicate rows of sparse gradients are not added up: see `accumulate_gradients`.

    Args:
        task: The networks and their losses.
        loss_scales: One for each network.
        states: Their states.
        non_trainable: The values before the forward pass.
        batch: The examples.
        seed: Int64 (2,): decides the noise that the task draws itself.
    """
    weights = task.weights()
    scalings = [network.float8_scalings for network in task.networks]
    with (
        phase_scope(Phase.FORWARD),
        tf.GradientTape(persistent=len(weights) > 1) as tape,
        recorded_amaxes(list(chain.from_iterable(scalings)), tape) as probes,
    ):
        losses, state_updates = task.losses(weights, non_trainable, batch, seed)
        scaled = [
            loss_scale.scale(state, loss)
            for loss_scale, state, loss in zip(loss_scales, states, losses, strict=True)
        ]
    rest = iter(probes)
    sources = [
        (own, [next(rest) for _ in each]) for own, each in zip(weights, scalings, strict=True)
    ]
    with phase_scope(Phase.BACKWARD), task.applied_dtypes():
        results = [tape.gradient(*pair) for pair in zip(scaled, sources, strict=True)]
    found = [by_weights for by_weights, _ in results]
    variables = [network.model.trainable_variables for network in task.networks]
    unscale = tuple(
        partial(_unscale, *own) for own in zip(loss_scales, states, found, variables, strict=True)
    )
    with phase_scope(Phase.CHECK):
        unscaled = [compute() for compute in unscale]
    return Gradients(
        losses,
        unscaled,
        state_updates,
        [only_overwrites(*own) for own in zip(found, variables, strict=True)],
        unscale,
        [[tf.zeros(3) if one is None else one for one in own] for _, own in results],
    )


def _unscale(
    loss_scale: LossScale, state: LossScaleState, scaled: list[Any], variables: Sequence[Any]
) -> list[Any]:
    return without_overwrites(loss_scale.unscale(state, scaled, variables), variables)
