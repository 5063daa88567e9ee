"""One training step: it updates all networks of a task, or none of them.

    gradients (see `gradients`) → accumulate → all-reduce → norms → clip → commit or skip

Gradients are unscaled, float32, and their duplicate rows are summed before any other use.
"""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, Final, Self

import tensorflow as tf

from ampcore.data import Batch
from ampcore.distributed import Replicas, SingleReplica
from ampcore.distributed.gradients import all_reduce_gradients
from ampcore.models.gradients import gradients
from ampcore.models.task import Network, NonTrainable, Task
from ampcore.precision import LossScale, LossScaleStates
from ampcore.precision.lowering import GRAPH, XLA, Lowering
from ampcore.precision.transaction import commit_or_skip
from ampcore.profile.phases import Phase
from ampcore.profile.scopes import phase_scope
from ampcore.train.accumulate import accumulate_gradients
from ampcore.train.clip import Clip

Tensor = Any

STEP_COLUMNS: Final = ("loss", "loss_scale", "skipped", "grad_norm", "learning_rate")
NETWORK_COLUMNS: Final = ("loss", "loss_scale", "grad_norm", "learning_rate")
BAD_MICRO_BATCHES: Final = "bad_micro_batches"


@dataclass(frozen=True)
class TrainStep:
    """The update of a task's weights from `accumulate` micro-batches.

    Args:
        task: The networks and their losses.
        optimizers: One for each network.
        loss_scales: One for each network.
        clips: The limits of each network's gradients.
        accumulate: The micro-batches of a step.
        replicas: The processes that make each step together.
    """

    task: Task
    optimizers: Sequence[Any]
    loss_scales: Sequence[LossScale]
    clips: Sequence[Clip]
    accumulate: int = 1
    replicas: Replicas = field(default_factory=SingleReplica)
    _: KW_ONLY
    _lowering: Lowering = field(default=GRAPH, repr=False)

    def for_xla(self) -> Self:
        """The same step in the form for XLA."""
        return replace(self, _lowering=XLA)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the values in a step's row, in order.

        With several networks `loss` is the sum of their losses, `loss_scale` the smallest scale,
        `grad_norm` the norm of all gradients, and `learning_rate` that of the first network.
        """
        names = [network.name for network in self.task.networks]
        extras = [f"{column}/{name}" for name in names for column in NETWORK_COLUMNS]
        bad = [BAD_MICRO_BATCHES] if self.accumulate > 1 else []
        return (*STEP_COLUMNS, *(extras if len(names) > 1 else []), *bad)

    def __call__(
        self, states: LossScaleStates, batch: Batch, seed: Tensor
    ) -> tuple[LossScaleStates, Tensor]:
        """Train on `accumulate` equal micro-batches.

        It assigns the variables of the networks and their optimizers. A skipped step assigns none
        of them; only the states of the loss scales change.

        Args:
            states: The states of the loss scales.
            batch: The examples of all micro-batches.
            seed: Int64 (2,), different in every step: for the noise of the task.

        Returns:
            The states of the next step, and the row: a float32 vector with a value for each of
            `columns`. Its losses and norms are unscaled, and the norms are those before clipping.
        """
        before = self.task.non_trainable()
        compute = partial(gradients, self.task, self.loss_scales, states)
        found, bad = accumulate_gradients(compute, self.accumulate, before, batch, seed)
        # No communication between replicas below: norms, checks and commit contain branches.
        found, bad = all_reduce_gradients(self.replicas, before, found, bad)
        with phase_scope(Phase.CHECK):
            norms = [
                clip.reported_norm(grads, self._lowering.global_norm(grads))
                for clip, grads in zip(self.clips, found.gradients, strict=True)
            ]
        # Read before the update: afterwards a schedule returns the rate of the next step.
        rates = [tf.cast(optimizer.learning_rate, tf.float32) for optimizer in self.optimizers]
        with phase_scope(Phase.UPDATE):
            groups = [
                (
                    optimizer,
                    _with_overwrites(clip(grads, norm), values),
                    network.model.trainable_variables,
                )
                for optimizer, clip, grads, norm, values, network in zip(
                    self.optimizers,
                    self.clips,
                    found.gradients,
                    norms,
                    found.overwrites,
                    self.task.networks,
                    strict=True,
                )
            ]
        outcome = commit_or_skip(
            self.loss_scales,
            states,
            groups,
            chain(
                _changed_variables(self.task.networks, before, found.state_updates),
                _next_histories(self.task.networks, found.amaxes),
            ),
            lowering=self._lowering,
            norms=norms,
            recompute_gradients=found.recompute_gradients,
        )
        scales = [state.scale for state in states]
        row = _telemetry_row(outcome.applied, found.losses, scales, norms, rates)
        return outcome.states, tf.stack(row + ([bad] if self.accumulate > 1 else []))


def _telemetry_row(
    applied: Tensor,
    losses: list[Tensor],
    scales: list[Tensor],
    norms: list[Tensor],
    rates: list[Tensor],
) -> list[Tensor]:
    skipped = tf.cast(tf.logical_not(applied), tf.float32)
    if len(losses) == 1:
        return [losses[0], scales[0], skipped, norms[0], rates[0]]
    own = chain.from_iterable(zip(losses, scales, norms, rates, strict=True))
    return [tf.add_n(losses), tf.reduce_min(scales), skipped, tf.norm(norms), rates[0], *own]


def _with_overwrites(grads: list[Any], overwrites: list[Any]) -> list[Any]:
    """The optimizer's input: each variable's gradient, or the value that overwrites it."""
    rows = zip(grads, overwrites, strict=True)
    return [grad if value is None else value for grad, value in rows]


def _changed_variables(
    networks: Sequence[Network], before: NonTrainable, after: NonTrainable
) -> Iterator[tuple[Any, Tensor]]:
    """The variables that the forward pass changes, with their new values."""
    for network, *values in zip(networks, before, after, strict=True):
        rows = zip(network.model.non_trainable_variables, *values, strict=True)
        yield from ((variable, new) for variable, old, new in rows if new is not old)


def _next_histories(
    networks: Sequence[Network], amaxes: Sequence[Sequence[Tensor]]
) -> Iterator[tuple[Any, Tensor]]:
    """The amax histories of float8 layers, with their next values."""
    for network, own in zip(networks, amaxes, strict=True):
        for scaling, amax in zip(network.float8_scalings, own, strict=True):
            yield scaling.history, scaling.next_history(amax)
