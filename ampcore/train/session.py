"""A job on its device, in one precision: its networks, optimizers, loss scales and loop."""

import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore import optimizers, precision
from ampcore.checkpoint import array_is_finite, match_arrays, state
from ampcore.data import Batch, Dataset
from ampcore.diagnostics.input_statistics import InputStatistics
from ampcore.distributed import Replicas, SingleReplica
from ampcore.distributed.row_shards import RowShard
from ampcore.distributed.whole_tables import VariableRows, WholeTable
from ampcore.models.seeds import step_seed
from ampcore.models.synchronized_batch_norm import check_synchronizable
from ampcore.models.task import Network, Task
from ampcore.precision import LayerPolicies
from ampcore.profile.phases import Phase
from ampcore.profile.scopes import phase_span
from ampcore.train.batch_slicing import slice_batch
from ampcore.train.feed import Feed, Window
from ampcore.train.job import TrainingJob
from ampcore.train.loop import NEVER_HALT, EngineName, Halt, Loop
from ampcore.train.plan import AdaptiveBlockSize, Plan
from ampcore.train.step import TrainStep
from ampcore.train.step_rows import step_block
from ampspec.errors import InvalidModel
from ampspec.telemetry import StepBlock


class Session:
    """The networks of a job with their optimizers, loss scales and the loop that trains them.

    A block never crosses the end of an epoch or of a window of the feed.
    """

    def __init__(
        self,
        job: TrainingJob,
        dataset: Dataset,
        plan: Plan,
        feed: Feed,
        policies: LayerPolicies,
        *,
        replicas: Replicas | None = None,
        accumulate: int = 1,
    ) -> None:
        spec = job.spec
        self._plan, self._feed, self._seed = plan, feed, spec.train.seed
        self._batch_size = spec.data.batch_size
        self._job, self._dataset = job, dataset
        self._block_size = AdaptiveBlockSize()
        self._loop: Loop | None = None
        self._input_statistics: tuple[InputStatistics | None, ...] = ()
        """Empty until they are asked for."""
        self.policies = policies
        self.task: Task = job.build_task(dataset, policies)
        """With the variables that are trained; the replicas call it together if rows of its tables
        are on others."""
        policies.check_all_matched()
        own = [job.build_optimizer(network, plan.total_steps) for network in self.task.networks]
        self.optimizers = [optimizer for optimizer, _ in own]
        for optimizer, network in zip(self.optimizers, self.task.networks, strict=True):
            # Slots must exist before the loop is traced.
            if not optimizer.built:
                optimizer.build(network.model.trainable_variables)
        resolved = precision.resolve_loss_scale(spec.loss_scale, policies.compute_dtypes)
        self.scale_spec: dict[str, Any] = resolved.model_dump(mode="json")
        self.loss_scales = [precision.from_spec(resolved)] * len(own)
        self.step = TrainStep(
            task=self.task,
            optimizers=self.optimizers,
            loss_scales=self.loss_scales,
            clips=[clip for _, clip in own],
            accumulate=accumulate,
            replicas=replicas or SingleReplica(),
            exchange=spec.runtime.exchange,
            skip_nonfinite=spec.guard.skip_nonfinite,
        )
        if self.replicas.size > 1:
            self._check_exchange()
        self.communication_s = 0.0
        """The time that the last block waited for other replicas and for transfers."""
        self._states = tuple(loss_scale.init() for loss_scale in self.loss_scales)
        self.first_scales = state.capture_scales(self.networks, self._states)
        """The states of the loss scales before the first step."""

    @property
    def networks(self) -> Sequence[Network]:
        """The networks of the task."""
        return self.task.networks

    @property
    def replicas(self) -> Replicas:
        """The processes that make each step together."""
        return self.step.replicas

    def _check_exchange(self) -> None:
        """Raise InvalidModel if this job cannot be exchanged as the spec says."""
        exchange = self.step.exchange
        if exchange.batch_norm == "sync":
            check_synchronizable(self.networks)
        has_scale = any(loss_scale.checks_finite for loss_scale in self.loss_scales)
        if exchange.gradient_dtype == "float16" and not has_scale:
            raise InvalidModel(
                "runtime.exchange.gradient_dtype",
                expected="bfloat16 or float32 for a job without a loss scale",
                received="float16",
            )

    @property
    def states(self) -> tuple[precision.LossScaleState, ...]:
        """The loss scales' states of the next step."""
        return self._loop.states if self._loop is not None else self._states

    @states.setter
    def states(self, states: tuple[precision.LossScaleState, ...]) -> None:
        self._states = states
        if self._loop is not None:
            self._loop.states = states

    @property
    def scale_by_network(self) -> dict[str, float]:
        """The loss scale of the next step, by network."""
        rows = zip(self.networks, self.states, strict=True)
        return {network.name: float(state.scale) for network, state in rows}

    @property
    def smallest_scale(self) -> float:
        """The smallest loss scale of the next step."""
        return min(self.scale_by_network.values())

    @property
    def checks_finite(self) -> bool:
        """Whether steps with non-finite gradients are skipped."""
        return any(self.step.checks)

    @property
    def step_examples(self) -> int:
        """The examples that throughput counts in one step, of all replicas."""
        return self.step.share.total * self.task.examples_per_step(self._batch_size)

    @property
    def engine(self) -> EngineName | None:
        """The engine in use; None before `use_engine`."""
        return self._loop.engine if self._loop is not None else None

    def use_engine(self, engine: EngineName, first_step: int = 0) -> None:
        """Train the next steps with this engine; traces its loop."""
        self.use_loop(self.build_loop(engine, first_step))

    def use_loop(self, loop: Loop) -> None:
        """Train the next steps with this loop of this session, from the current state on."""
        loop.states = self.states
        self._loop = loop

    def build_loop(self, engine: EngineName, first_step: int = 0) -> Loop:
        """A loop over this session's variables; the one in use stays."""
        return Loop(
            self.step,
            self.states,
            self.window(first_step).examples,
            batch_size=self._batch_size,
            engine=engine,
            seed=self._seed,
        )

    @cached_property
    def local_task(self) -> Task:
        """The task as this replica repeats a step alone: see `Task.without_communication`."""
        return self.task.without_communication()

    def input_statistics(self) -> InputStatistics | None:
        """The statistics of the inputs of all training examples; None if they cannot be known."""
        if not self._input_statistics:
            self._input_statistics = (InputStatistics.of(self._dataset.train),)
        return self._input_statistics[0]

    def position(self, step: int) -> tuple[int, int]:
        """The epoch of a step, and its batch in that epoch."""
        return self._plan.position(step)

    def example_indices(self, step: int) -> NDArray[np.int64]:
        """The indices of the training examples of a step."""
        return self._feed.order.of_step(*self._plan.position(step))

    def step_inputs(self, step: int) -> tuple[Batch, Any]:
        """The batch of a step, all micro-batches of this replica, and the step's seed."""
        _, batch = self._plan.position(step)
        window = self.window(step)
        size = self._batch_size * self.step.accumulate
        examples = slice_batch(window.examples, tf.constant(batch - window.first_batch), size)
        seed = step_seed(self._seed, tf.constant(step, tf.int64))
        return examples, seed

    def window(self, step: int) -> Window:
        """The examples that a step and those around it train on."""
        return self._feed.window(*self._plan.position(step))

    def run_block(
        self, first_step: int, *, max_steps: int | None = None, halt: Halt = NEVER_HALT
    ) -> StepBlock:
        """Train the next steps: as many as take about half a second.

        All replicas train as many as the one that wants the fewest.

        Args:
            first_step: The number of the first one.
            max_steps: The maximum number of steps.
            halt: After which bad steps the block ends.
        """
        if self._loop is None:
            raise RuntimeError("No engine is set: call use_engine() before run_block().")
        # Waiting for data and ordering an epoch count as part of the steps.
        started_at = time.perf_counter()
        _, batch = self._plan.position(first_step)
        with phase_span(Phase.INPUT):
            window = self.window(first_step)
        left = min(self._plan.left_in_epoch(first_step), window.end_batch - batch)
        left = left if max_steps is None else min(left, max_steps)
        asked_at = time.perf_counter()
        count = min(self.replicas.all_gather_object(self._block_size.next_size(left)))
        start = time.perf_counter()
        rows = self._loop.run(
            window.examples,
            batch - window.first_batch,
            first_step,
            count,
            halt=halt,
        )
        ended = time.perf_counter()
        self._block_size.observe(len(rows), ended - start)
        if self.replicas.size > 1:
            # Before the block, too, it waits for the others: for one whose input is slow.
            in_steps_s = float(rows[:, -1].sum(dtype=np.float64))
            self.communication_s = start - asked_at + in_steps_s
        return step_block(
            first_step, self.step.columns, rows, ended - started_at, self.step_examples
        )

    def run_no_step(self, step: int) -> None:
        """Call the compiled loop for zero steps, with the examples of a step; nothing changes."""
        if self._loop is not None:
            self._loop.run_no_step(self.window(step).examples)

    def evaluation_weights(self) -> list[list[Any]]:
        """The weights to evaluate: their moving averages if the optimizer has them."""
        return [
            optimizers.averaged(optimizer, network.model.trainable_variables)
            for optimizer, network in zip(self.optimizers, self.networks, strict=True)
        ]

    def assign_averages(self) -> None:
        """Make the moving averages the weights, at the end of the training."""
        for optimizer, network in zip(self.optimizers, self.networks, strict=True):
            optimizers.assign_averages(optimizer, network.model.trainable_variables)

    def nonfinite_names(self) -> list[str]:
        """The names of the models' variables, and of averages, that hold non-finite values."""
        shards = self.task.shards()
        found: dict[str, bool] = {}
        for network, weights in zip(self.networks, self.evaluation_weights(), strict=True):
            model = network.model
            pairs = [(variable, variable.value) for variable in model.variables]
            pairs += zip(model.trainable_variables, weights, strict=True)
            for variable, value in pairs:
                name = f"{network.name}/{state.stable_path(variable)}"
                has_shard = id(variable) in shards and value is variable.value
                array = VariableRows(variable) if has_shard else np.asarray(value.numpy())
                found[name] = found.get(name, True) and array_is_finite(array)
        return self.nonfinite_on_any_rank(
            [name for name, is_finite in found.items() if not is_finite]
        )

    @cached_property
    def shards(self) -> Mapping[str, RowShard]:
        """The arrays in `capture` and `capture_model` that have only the rows of this replica."""
        tables = self.task.shards()
        shards: dict[int, RowShard] = dict(tables)
        for optimizer, network in zip(self.optimizers, self.networks, strict=True):
            for variable in network.model.trainable_variables:
                if (shard := tables.get(id(variable))) is not None:
                    own = optimizer.variables_by_row(variable)
                    shards |= {id(each): shard for each in own}
        pairs = state.named_variables(self.networks, self.optimizers)
        return {name: shards[id(each)] for name, each in pairs if id(each) in shards}

    def whole_tables(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """A captured state or model, with whole tables that arrive in pieces."""
        shards = self.shards
        return {
            name: WholeTable(array, shards[name], self.replicas) if name in shards else array
            for name, array in arrays.items()
        }

    def model_tables(self) -> dict[int, WholeTable]:
        """The tables whose rows are on several replicas, by `id` of the models' variables.

        All replicas take their pieces together.
        """
        shards = self.task.shards()
        return {
            id(variable): WholeTable(VariableRows(variable), shards[id(variable)], self.replicas)
            for network in self.networks
            for variable in network.model.trainable_variables
            if id(variable) in shards
        }

    def weights_digest(self) -> str:
        """The SHA-256 of all weights with their whole tables; all replicas call it together."""
        tables = self.model_tables()
        digest = hashlib.sha256()
        for network in self.networks:
            for weight in network.model.weights:
                if (table := tables.get(id(weight))) is None:
                    digest.update(weight.value.numpy().tobytes())
                    continue
                for piece in table.pieces():
                    digest.update(piece.tobytes())
        return digest.hexdigest()

    def nonfinite_on_any_rank(self, names: Sequence[str]) -> list[str]:
        """The names that this replica, or another one with other rows, has found not finite."""
        if not self.shards:
            return list(names)
        return list(
            dict.fromkeys(chain.from_iterable(self.replicas.all_gather_object(list(names))))
        )

    def statistic_names(self) -> list[str]:
        """The names in `capture` of the floats that a forward pass changes."""
        found = {
            id(variable)
            for network in self.networks
            for variable in network.model.non_trainable_variables
            if "float" in variable.dtype
        }
        pairs = state.named_variables(self.networks, self.optimizers)
        return [name for name, variable in pairs if id(variable) in found]

    def capture(self) -> state.Arrays:
        """Copy everything that the next step depends on to the host."""
        return state.capture(self.networks, self.optimizers, self.states)

    def state_to_save(self) -> dict[str, Any]:
        """As `capture`, but not to be kept: it is that of the variables as they are now.

        The rows of tables that only this replica has are not copied, but read in pieces.
        """
        pairs = state.named_variables(self.networks, self.optimizers)
        rows = {name: VariableRows(each) for name, each in pairs if name in self.shards}
        return self.capture_common() | rows

    def capture_common(self) -> state.Arrays:
        """As `capture`, without the rows of tables that only this replica has."""
        return state.capture(self.networks, self.optimizers, self.states, self.shards)

    def restore_common(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore what `capture_common` copied."""
        state.restore(self.networks, self.optimizers, arrays, self.shards)
        self.restore_scales(arrays)

    def capture_model(self) -> state.Arrays:
        """Copy the models to the host as they are evaluated: with averages as their weights."""
        return state.capture_model(self.networks, self.evaluation_weights())

    def restore_model(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Assign what `capture_model` copied, perhaps in another precision.

        Raises:
            IncompatibleCheckpoint: The arrays are not those of the models.
        """
        variables = state.model_variables(self.networks)
        expected = {name: (tuple(each.shape), each.dtype) for name, each in variables}
        state.restore_model(self.networks, match_arrays(arrays, expected))

    def expected_arrays(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """The shape and dtype of every variable that `restore` needs, by name."""
        pairs = state.named_variables(self.networks, self.optimizers)
        return {name: (tuple(variable.shape), variable.dtype) for name, variable in pairs}

    def match_variables(self, arrays: Mapping[str, NDArray[Any]]) -> state.Arrays:
        """The arrays of all variables, copied perhaps in another precision, for `restore`.

        Raises:
            IncompatibleCheckpoint: They are not those of this session's variables.
        """
        expected = self.expected_arrays()
        return match_arrays(state.with_amax_histories(arrays, expected), expected)

    def split_loss_scales(
        self, arrays: Mapping[str, NDArray[Any]]
    ) -> tuple[state.Arrays, state.Arrays]:
        """Split what `capture` copied into the variables and the states of the loss scales."""
        scales = {name: array for name, array in arrays.items() if state.is_loss_scale(name)}
        return {name: array for name, array in arrays.items() if name not in scales}, scales

    def restore(self, arrays: Mapping[str, NDArray[Any]], *, scales: bool = True) -> None:
        """Restore what `capture` copied; without `scales` the loss scales stay."""
        state.restore(self.networks, self.optimizers, arrays)
        if scales:
            self.restore_scales(arrays)

    def restore_scales(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the states of the loss scales, within the bounds of their kinds."""
        found = state.scale_states(self.networks, self.states, arrays)
        self.states = tuple(
            loss_scale.clamp(state)
            for loss_scale, state in zip(self.loss_scales, found, strict=True)
        )

    def lower_scales(self, factor: float) -> None:
        """Multiply every loss scale by `factor`, within the bounds of its kind."""
        self.states = tuple(
            loss_scale.clamp(state._replace(scale=state.scale * factor))
            for loss_scale, state in zip(self.loss_scales, self.states, strict=True)
        )


def parameters(task: Task) -> int:
    """Trainable and other weights of all networks, with the rows of all replicas."""
    shards = task.shards()
    elsewhere: int = sum(
        (shards[id(variable)].rows - variable.shape[0]) * math.prod(variable.shape[1:])
        for network in task.networks
        for variable in network.model.trainable_variables
        if id(variable) in shards
    )
    own: int = sum(network.model.count_params() for network in task.networks)
    return own + elsewhere
