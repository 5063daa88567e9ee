"""One training step: it updates all networks of a task, or none of them.

    gradients (see `gradients`) → accumulate → all-reduce → norms → clip → commit or skip

Gradients are unscaled, float32, and their duplicate rows are summed before any other use.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, Final, Self

import tensorflow as tf

from ampcore.data import Batch
from ampcore.distributed import Replicas, SingleReplica
from ampcore.distributed.gradients import all_reduce_gradients
from ampcore.models.dropout_seeds import DropoutSeeds
from ampcore.models.gradients import Gradients, gradients
from ampcore.models.seeds import StepShare
from ampcore.models.synchronized_batch_norm import synchronized_moments
from ampcore.models.task import Network, NonTrainable, Task
from ampcore.precision import LossScale, LossScaleStates
from ampcore.precision.lowering import GRAPH, XLA, Lowering
from ampcore.precision.transaction import commit_or_skip
from ampcore.profile.phases import Phase
from ampcore.profile.scopes import phase_scope
from ampcore.train.accumulate import accumulate_gradients
from ampcore.train.batch_slicing import slice_batch
from ampcore.train.clip import Clip
from ampspec.training.ranks import Exchange

Tensor = Any

STEP_COLUMNS: Final = ("loss", "loss_scale", "skipped", "grad_norm", "learning_rate")
NETWORK_COLUMNS: Final = ("loss", "loss_scale", "grad_norm", "learning_rate")
BAD_MICRO_BATCHES: Final = "bad_micro_batches"
COMMUNICATION_S: Final = "communication_s"
"""With several replicas the last value of a row: how long this one waited for the others and the
transfer, in seconds."""


@dataclass(frozen=True)
class TrainStep:
    """The update of a task's weights from `accumulate` micro-batches.

    Args:
        task: The networks and their losses.
        optimizers: One for each network.
        loss_scales: One for each network.
        clips: The limits of each network's gradients.
        accumulate: The micro-batches of a step, on each replica.
        replicas: The processes that make each step together.
        exchange: How they exchange gradients and statistics.
        skip_nonfinite: Whether non-finite gradients skip a step without a loss scale, too.
    """

    task: Task
    optimizers: Sequence[Any]
    loss_scales: Sequence[LossScale]
    clips: Sequence[Clip]
    accumulate: int = 1
    replicas: Replicas = field(default_factory=SingleReplica)
    exchange: Exchange = field(default_factory=Exchange)
    skip_nonfinite: bool = True
    _: KW_ONLY
    _lowering: Lowering = field(default=GRAPH, repr=False)

    def for_xla(self) -> Self:
        """The same step in the form for XLA."""
        return replace(self, _lowering=XLA)

    @property
    def checks(self) -> list[bool]:
        """For each network, whether its gradients skip a step if they are not finite."""
        return [self.skip_nonfinite or one.checks_finite for one in self.loss_scales]

    @property
    def share(self) -> StepShare:
        """The micro-batches of this replica among those of the step."""
        return StepShare(self.accumulate, self.replicas.rank, self.replicas.size)

    @property
    def row_width(self) -> int:
        """The number of values in a row: `columns`, and the time of the communication if any."""
        return len(self.columns) + (self.replicas.size > 1)

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
            batch: The examples of all micro-batches of this replica.
            seed: Int64 (2,), different in every step: for the noise of the task.

        Returns:
            The states of the next step, and the row: a float32 vector with a value for each of
            `columns`, and the time of the communication if there are several replicas. Its losses
            and norms are unscaled, and the norms are those before clipping.
        """
        before = self.task.non_trainable()
        found, bad = self.compute(states, before, batch, seed)
        if self.replicas.size == 1:
            return self.update(states, before, found, bad)
        found, bad, seconds = self.communicate(states, before, found, bad)
        next_states, row = self.update(states, before, found, bad)
        return next_states, tf.concat([row, [seconds]], axis=0)

    def compute(
        self, states: LossScaleStates, before: NonTrainable, batch: Batch, seed: Tensor
    ) -> tuple[Gradients, Tensor]:
        """The gradients of this replica, and how many of its micro-batches had non-finite ones.

        Args:
            states: The states of the loss scales.
            before: The non-trainable values before the step.
            batch: The examples of all micro-batches of this replica.
            seed: That of the step.
        """
        compute = partial(gradients, self.task, self.loss_scales, states)
        seeds = DropoutSeeds(self.task, self.share)
        began = before
        if seeds.shifts:
            size = batch.parts[0].shape[0] // self.accumulate
            began = seeds.before(before, slice_batch(batch, tf.constant(0), size), seed)
        with self._moments():
            found, bad = accumulate_gradients(compute, self.share, began, batch, seed)
        ended = seeds.after(before, began, found.state_updates)
        return found._replace(state_updates=ended), bad

    def communicate(
        self, states: LossScaleStates, before: NonTrainable, found: Gradients, bad: Tensor
    ) -> tuple[Gradients, Tensor, Tensor]:
        """The results of all replicas together, and how long the communication took.

        The time is that after this replica has all its gradients: it includes waiting for slower
        replicas, but not what was sent while gradients were still computed.
        """
        with tf.control_dependencies(_results(found, bad)):
            start = tf.timestamp()
        combined, bad = all_reduce_gradients(
            self.replicas,
            before,
            found,
            bad,
            self.exchange.gradient_dtype,
            [state.scale for state in states],
            average_statistics=self.exchange.batch_norm != "local",
            sharded=self._sharded(),
        )
        with tf.control_dependencies([start, *_results(combined, bad)]):
            return combined, bad, tf.cast(tf.timestamp() - start, tf.float32)

    def update(
        self, states: LossScaleStates, before: NonTrainable, found: Gradients, bad: Tensor
    ) -> tuple[LossScaleStates, Tensor]:
        """Check, clip, and commit or skip; no communication, because it contains branches.

        Args:
            states: The states of the loss scales.
            before: The non-trainable values before the step.
            found: The gradients of all replicas.
            bad: How many micro-batches had non-finite gradients.

        Returns:
            The states of the next step, and the row with a value for each of `columns`.
        """
        measured = _measured(found, self._sharded())
        with phase_scope(Phase.CHECK):
            norms = [
                clip.reported_norm(grads, self._lowering.global_norm(grads))
                for clip, grads in zip(self.clips, measured, strict=True)
            ]
        # Read before the update: afterwards a schedule returns the rate of the next step.
        rates = [tf.cast(optimizer.learning_rate, tf.float32) for optimizer in self.optimizers]
        with phase_scope(Phase.UPDATE):
            groups = [
                (
                    optimizer,
                    _with_overwrites(clip(grads, norm, own), values),
                    network.model.trainable_variables,
                )
                for optimizer, clip, grads, own, norm, values, network in zip(
                    self.optimizers,
                    self.clips,
                    found.gradients,
                    measured,
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
            checks=self.checks,
            norms=norms,
            recompute_gradients=(
                tuple(partial(list, own) for own in measured)
                if any(norm is not None for norm in found.shard_norms)
                else found.recompute_gradients
            ),
        )
        scales = [state.scale for state in states]
        row = _telemetry_row(outcome.applied, found.losses, scales, norms, rates)
        return outcome.states, tf.stack(row + ([bad] if self.accumulate > 1 else []))

    def _sharded(self) -> list[list[bool]] | None:
        """Whether each trainable variable holds the rows of this replica only; None: none does."""
        shards = self.task.shards() if self.replicas.size > 1 else {}
        if not shards:
            return None
        return [
            [id(variable) in shards for variable in network.model.trainable_variables]
            for network in self.task.networks
        ]

    def _moments(self) -> AbstractContextManager[None]:
        """How BatchNormalization computes its moments while the gradients are traced."""
        if self.replicas.size == 1 or self.exchange.batch_norm != "sync":
            return nullcontext()
        return synchronized_moments(self.replicas, self.task.networks)


def _measured(found: Gradients, sharded: Sequence[Sequence[bool]] | None) -> list[list[Any]]:
    """The gradients whose norm and finiteness are those of the step on all replicas.

    The norms of all replicas are in the place of the gradients of their rows.
    """
    if sharded is None or not found.shard_norms:
        return found.gradients
    return [
        [
            *(grad for grad, is_shard in zip(*own, strict=True) if not is_shard),
            *([] if norms is None else [norms]),
        ]
        for own, norms in zip(
            zip(found.gradients, sharded, strict=True), found.shard_norms, strict=True
        )
    ]


def _results(found: Gradients, bad: Tensor) -> list[Tensor]:
    """Everything that is ready once a replica has all gradients."""
    gradients = chain.from_iterable(found.gradients)
    return [bad, *found.losses, *(grad for grad in gradients if grad is not None)]


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
        rows = zip(network.state_variables, *values, strict=True)
        yield from ((variable, new) for variable, old, new in rows if new is not old)


def _next_histories(
    networks: Sequence[Network], amaxes: Sequence[Sequence[Tensor]]
) -> Iterator[tuple[Any, Tensor]]:
    """The amax histories of float8 layers, with their next values."""
    for network, own in zip(networks, amaxes, strict=True):
        for scaling, amax in zip(network.float8_scalings, own, strict=True):
            yield scaling.history, scaling.next_history(amax)
