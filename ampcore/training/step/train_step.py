"""One training step: it updates all networks of a task, or none of them.

Gradients are unscaled, float32, and their duplicate rows are summed before any other use.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, Self

import tensorflow as tf

from ampcore.data import Batch
from ampcore.distributed import Communicator, SingleRank
from ampcore.models.dropout_seeds import DropoutSeeds
from ampcore.models.seeds import MicroBatchShard
from ampcore.models.task import Network, Task
from ampcore.phase_scopes import phase_scope
from ampcore.phases import Phase
from ampcore.precision import LossScale, LossScaleStates
from ampcore.precision.lowering import GRAPH, XLA, Lowering, OptimizerUpdate
from ampcore.precision.transaction import commit_or_skip
from ampcore.training.step.accumulate import accumulate_gradients
from ampcore.training.step.batch_slicing import slice_batch
from ampcore.training.step.clip import Clip
from ampcore.training.step.exchange import all_reduce_gradients
from ampcore.training.step.gradients import NetworkGradients, StepGradients, network_gradients
from ampcore.training.step.synchronized_batch_norm import synchronized_moments
from ampcore.training.step.telemetry_columns import NetworkOutcome, RowLayout, StepOutcome
from ampspec.training.ranks import Exchange

Tensor = Any


@dataclass(frozen=True)
class TrainStep:
    """The update of a task's weights from `accumulate` micro-batches.

    Args:
        task: The networks and their losses.
        optimizers: One for each network.
        loss_scales: One for each network.
        clips: The limits of each network's gradients.
        accumulate: The micro-batches of a step, on each rank.
        communicator: The processes that make each step together.
        exchange: How they exchange gradients and statistics.
        skip_nonfinite: Whether non-finite gradients skip a step without a loss scale, too.
    """

    task: Task
    optimizers: Sequence[Any]
    loss_scales: Sequence[LossScale]
    clips: Sequence[Clip]
    accumulate: int = 1
    communicator: Communicator = field(default_factory=SingleRank)
    exchange: Exchange = field(default_factory=Exchange)
    skip_nonfinite: bool = True
    _: KW_ONLY
    _lowering: Lowering = field(default=GRAPH, repr=False)

    def __call__(
        self, states: LossScaleStates, batch: Batch, seed: Tensor
    ) -> tuple[LossScaleStates, Tensor]:
        """Train on `accumulate` equal micro-batches.

        It assigns the variables of the networks and their optimizers. A skipped step assigns none
        of them; only the states of the loss scales change.

        Args:
            states: The states of the loss scales.
            batch: The examples of all micro-batches of this rank.
            seed: Int64 (2,), different in every step: for the noise of the task.

        Returns:
            The states of the next step, and the row: a float32 vector with a value for each of
            `columns`, and the time of the communication if there are several ranks. Its losses
            and norms are unscaled, and the norms are those before clipping.
        """
        gradients = self.accumulated_gradients(states, batch, seed)
        gradients = self.mean_of_ranks(states, gradients)
        return self.update(states, gradients)

    def accumulated_gradients(
        self, states: LossScaleStates, batch: Batch, seed: Tensor
    ) -> StepGradients:
        """The mean gradients of this rank's micro-batches; arguments as of the call."""
        compute = partial(network_gradients, self.task, self.loss_scales, states)
        seeds = DropoutSeeds(self.task, self.shard)
        values = first_values = self.task.non_trainable()
        if seeds.shifts:
            size = batch.parts[0].shape[0] // self.accumulate
            first_values = seeds.before(values, slice_batch(batch, tf.constant(0), size), seed)
        with self._moments():
            gradients = accumulate_gradients(compute, self.shard, first_values, batch, seed)
        updates = [network.state_updates for network in gradients.networks]
        updates = seeds.after(values, first_values, updates)
        networks = zip(gradients.networks, updates, strict=True)
        return gradients._replace(
            networks=[network._replace(state_updates=new) for network, new in networks]
        )

    def mean_of_ranks(self, states: LossScaleStates, gradients: StepGradients) -> StepGradients:
        """The results of all ranks together, and how long the communication took.

        The time is that after this rank has all its gradients: it includes waiting for slower
        ranks, but not what was sent while gradients were still computed.
        """
        if self.communicator.size == 1:
            return gradients
        with tf.control_dependencies(_results(gradients)):
            start = tf.timestamp()
        mean = all_reduce_gradients(
            self.communicator,
            gradients,
            self.exchange.gradient_dtype,
            [state.scale for state in states],
            average_statistics=self.exchange.batch_norm != "local",
            sharded=self._sharded(),
        )
        with tf.control_dependencies([start, *_results(mean)]):
            return mean._replace(communication_s=tf.cast(tf.timestamp() - start, tf.float32))

    def update(
        self, states: LossScaleStates, gradients: StepGradients
    ) -> tuple[LossScaleStates, Tensor]:
        """Clip, check, and commit or skip; no communication, because it contains branches.

        Args:
            states: The states of the loss scales.
            gradients: Those of all ranks.

        Returns:
            The states of the next step, and the row.
        """
        # Read before the update: afterwards a schedule returns the rate of the next step.
        rates = [tf.cast(optimizer.learning_rate, tf.float32) for optimizer in self.optimizers]
        networks = [
            self._clipped(*network) for network in zip(self.clips, gradients.networks, strict=True)
        ]
        outcome = commit_or_skip(
            self.loss_scales,
            states,
            list(self._optimizer_updates(networks)),
            list(_state_updates(self.task.networks, networks)),
            lowering=self._lowering,
        )
        scales = [state.scale for state in states]
        row = self._row_layout.row(
            StepOutcome(
                [NetworkOutcome(*parts) for parts in zip(networks, scales, rates, strict=True)],
                outcome.applied,
                gradients.nonfinite_micro_batches,
            )
        )
        if gradients.communication_s is not None:
            row = tf.concat([row, [gradients.communication_s]], axis=0)
        return outcome.states, row

    def for_xla(self) -> Self:
        """The same step in the form for XLA."""
        return replace(self, _lowering=XLA)

    @property
    def checks(self) -> list[bool]:
        """For each network, whether its gradients skip a step if they are not finite."""
        return [self.skip_nonfinite or scale.checks_finite for scale in self.loss_scales]

    @property
    def checks_finite(self) -> bool:
        """Whether steps with non-finite gradients are skipped."""
        return any(self.checks)

    @property
    def shard(self) -> MicroBatchShard:
        """The micro-batches of this rank among those of the step."""
        return MicroBatchShard(self.accumulate, self.communicator.rank, self.communicator.size)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the values in a step's row, in order."""
        return self._row_layout.columns

    @property
    def row_width(self) -> int:
        """The number of values in a row: `columns`, and the time of the communication if any."""
        return len(self.columns) + (self.communicator.size > 1)

    @property
    def _row_layout(self) -> RowLayout:
        names = tuple(network.name for network in self.task.networks)
        return RowLayout(names, accumulates=self.accumulate > 1)

    def _clipped(self, clip: Clip, network: NetworkGradients) -> NetworkGradients:
        """The clipped gradients of a network, and their norm before."""
        norm_inputs = network.gradients if network.norm_inputs is None else network.norm_inputs
        with phase_scope(Phase.CHECK):
            norm = clip.reported_norm(norm_inputs, self._lowering.global_norm(norm_inputs))
        with phase_scope(Phase.UPDATE):
            clipped = clip(network.gradients, norm, norm_inputs)
        return network._replace(gradients=clipped, norm=norm)

    def _optimizer_updates(self, networks: Sequence[NetworkGradients]) -> Iterator[OptimizerUpdate]:
        rows = zip(self.optimizers, self.task.networks, networks, self.checks, strict=True)
        for optimizer, network, gradients, checks_finite in rows:
            yield OptimizerUpdate(
                optimizer,
                gradients.gradients,
                network.model.trainable_variables,
                gradients.overwrites,
                checks_finite,
                gradients.norm,
                gradients.recompute_norm_inputs,
            )

    def _sharded(self) -> list[list[bool]] | None:
        """Whether each trainable variable holds the rows of this rank only; None: none does."""
        shards = self.task.shards() if self.communicator.size > 1 else {}
        if not shards:
            return None
        return [
            [id(variable) in shards for variable in network.model.trainable_variables]
            for network in self.task.networks
        ]

    def _moments(self) -> AbstractContextManager[None]:
        """How BatchNormalization computes its moments while the gradients are traced."""
        if self.communicator.size == 1 or self.exchange.batch_norm != "sync":
            return nullcontext()
        return synchronized_moments(self.communicator, self.task.networks)


def _results(gradients: StepGradients) -> list[Tensor]:
    """Everything that is ready once a rank has all gradients."""
    losses = [network.loss for network in gradients.networks]
    grads = [grad for network in gradients.networks for grad in network.gradients]
    results = [gradients.nonfinite_micro_batches, *losses, *grads]
    return [result for result in results if result is not None]


def _state_updates(
    networks: Sequence[Network], gradients: Sequence[NetworkGradients]
) -> Iterator[tuple[Any, Tensor]]:
    """The variables that the forward pass changes, and the amax histories of float8 layers."""
    for network, updates in zip(networks, gradients, strict=True):
        variables = network.state_variables
        yield from ((variables[index], value) for index, value in updates.state_updates.items())
        for scaling, amax in zip(network.float8_scalings, updates.amaxes, strict=True):
            yield scaling.history, scaling.next_history(amax)
