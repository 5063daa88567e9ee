"""The losses of one batch and their gradients; assigns no variable.

The order is that of Micikevicius et al. 2018, arXiv:1710.03740: float32 weights → 16-bit compute →
float32 loss → times the loss scale → gradients → divided by the loss scale, in float32.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import tensorflow as tf

from ampcore.data import Batch
from ampcore.models.stateless_call import StateUpdates
from ampcore.models.task import NonTrainable, Task
from ampcore.phase_scopes import phase_scope
from ampcore.phases import Phase
from ampcore.precision import LossScale, LossScaleState, LossScaleStates, split_overwrites
from ampcore.precision.layers.float8_products import recorded_amaxes

Tensor = Any


class NetworkGradients(NamedTuple):
    """The loss, gradients and state updates of one network.

    Attributes:
        loss: Float32 scalar, unscaled.
        gradients: One for each trainable variable, float32 and unscaled; IndexedSlices for
            embedding tables; None for a variable that the loss does not depend on, and for one with
            a value in `overwrites`.
        state_updates: The next values of the state variables that the forward pass changes.
        overwrites: By the index of a trainable variable, the value that overwrites it in place of a
            gradient (Keras's float8 scales and amax histories).
        amaxes: Those of the network's `float8_scalings` in this batch, float32 (3,) each.
        recompute_gradients: Computes `gradients` again from the scaled ones, unclipped; None where
            that takes more than a division. A branch that is rarely taken calls it instead of
            keeping `gradients` in memory.
        norm_inputs: Tensors with the norm and the finiteness of the gradients of all ranks;
            None: `gradients` have them.
        norm: The global norm before clipping; None before it is computed.
    """

    loss: Tensor
    gradients: list[Any]
    state_updates: StateUpdates
    overwrites: dict[int, Tensor]
    amaxes: list[Tensor]
    recompute_gradients: Callable[[], list[Any]] | None = None
    norm_inputs: list[Any] | None = None
    norm: Tensor | None = None

    @property
    def recompute_norm_inputs(self) -> Callable[[], list[Any]] | None:
        """Computes what is checked if the norm is not finite; None: `gradients` are."""
        if self.norm_inputs is not None:
            return partial(list, self.norm_inputs)
        return self.recompute_gradients


class StepGradients(NamedTuple):
    """The gradients of a step.

    Attributes:
        networks: Those of each network of the task.
        nonfinite_micro_batches: How many micro-batches had non-finite gradients, float32; not
            counted for a single one.
        communication_s: How long this rank waited for the others and the transfer, in seconds,
            float32; None for a single rank.
    """

    networks: list[NetworkGradients]
    nonfinite_micro_batches: Tensor
    communication_s: Tensor | None = None


def network_gradients(  # noqa: PLR0917 - a function of all of these; a step fixes the first three
    task: Task,
    loss_scales: Sequence[LossScale],
    states: LossScaleStates,
    non_trainable: NonTrainable,
    batch: Batch,
    seed: Tensor,
) -> list[NetworkGradients]:
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
        _check_state_updates(task, state_updates)
        scaled_losses = [
            loss_scale.scale(state, loss)
            for loss_scale, state, loss in zip(loss_scales, states, losses, strict=True)
        ]
    probe = iter(probes)
    network_probes = [[next(probe) for _ in scaling] for scaling in scalings]
    with phase_scope(Phase.BACKWARD), task.applied_dtypes():
        scaled_grads = [
            tape.gradient(*pair)
            for pair in zip(scaled_losses, zip(weights, network_probes, strict=True), strict=True)
        ]
    return [
        _unscaled(network.model.trainable_variables, *parts)
        for network, *parts in zip(
            task.networks, loss_scales, states, losses, scaled_grads, state_updates, strict=True
        )
    ]


def _check_state_updates(task: Task, state_updates: Sequence[Any]) -> None:
    for network, updates in zip(task.networks, state_updates, strict=True):
        if not isinstance(updates, Mapping):
            raise TypeError(
                f"{type(task).__name__}.losses() must return, for network {network.name!r}, a dict "
                "of the next values of its state variables by their index in "
                f"Network.state_variables; it returned {type(updates).__name__}"
            )


def _unscaled(  # noqa: PLR0917 - the parts of one network
    variables: Sequence[Any],
    loss_scale: LossScale,
    state: LossScaleState,
    loss: Tensor,
    scaled: tuple[list[Any], list[Any]],
    state_updates: StateUpdates,
) -> NetworkGradients:
    by_variable, amaxes = scaled
    grads, overwrites = split_overwrites(by_variable, variables)
    unscale = partial(loss_scale.unscale, state, grads)
    with phase_scope(Phase.CHECK):
        unscaled = unscale()
    return NetworkGradients(
        loss,
        unscaled,
        state_updates,
        overwrites,
        [tf.zeros(3) if amax is None else amax for amax in amaxes],
        recompute_gradients=unscale,
    )
