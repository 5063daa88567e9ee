"""The compiled step of a job in one precision, and the blocks of steps that it trains."""

import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.data import Batch
from ampcore.data.feed import TrainingFeed, Window
from ampcore.distributed import Communicator
from ampcore.models.seeds import step_seed
from ampcore.models.task import Network, Task
from ampcore.phase_scopes import phase_span
from ampcore.phases import Phase
from ampcore.precision import LayerPolicies
from ampcore.training.state.model_weights import ModelWeights
from ampcore.training.state.sharded_tables import ShardedTables
from ampcore.training.state.train_state import TrainState
from ampcore.training.step.batch_slicing import slice_batch
from ampcore.training.step.loop import NEVER_STOP, EngineName, Loop, StopCondition
from ampcore.training.step.plan import AdaptiveBlockSize, Plan
from ampcore.training.step.row_block import step_block
from ampcore.training.step.train_step import TrainStep
from ampspec.telemetry import StepBlock


class StepRunner:
    """Trains blocks of steps; a block never crosses the end of an epoch or of a feed's window.

    Args:
        train_step: The step.
        plan: The epochs and steps of the run.
        feed: The examples of each step.
        policies: The dtypes of the layers.
        scale_spec: How the loss scales are set.
        batch_size: The examples of a micro-batch.
        seed: The seed of the job.

    Attributes:
        state: What the next step depends on.
        weights: The models as they are evaluated and saved.
        tables: The tables of which this rank has some rows.
        input_s: The time that all blocks have waited for examples.
        communication_s: The time that the last block waited for other ranks and for transfers.
    """

    def __init__(
        self,
        train_step: TrainStep,
        plan: Plan,
        feed: TrainingFeed,
        policies: LayerPolicies,
        scale_spec: Mapping[str, Any],
        *,
        batch_size: int,
        seed: int,
    ) -> None:
        self.train_step, self.policies = train_step, policies
        self._plan, self._feed = plan, feed
        self._batch_size, self._seed = batch_size, seed
        self._block_size = AdaptiveBlockSize()
        self._loop: Loop | None = None
        optimizers = train_step.optimizers
        self.tables = ShardedTables(self.task, optimizers, self.communicator)
        self.state = TrainState(
            self.networks, optimizers, train_step.loss_scales, scale_spec, self.tables
        )
        self.weights = ModelWeights(self.task, optimizers, self.tables)
        self.communication_s = self.input_s = 0.0

    @property
    def task(self) -> Task:
        """What is trained; the ranks call it together if rows of its tables are on others."""
        return self.train_step.task

    @cached_property
    def local_task(self) -> Task:
        """The task as this rank repeats a step alone: see `Task.without_communication`."""
        return self.task.without_communication()

    @property
    def networks(self) -> Sequence[Network]:
        """The networks of the task."""
        return self.task.networks

    @property
    def communicator(self) -> Communicator:
        """The processes that make each step together."""
        return self.train_step.communicator

    @property
    def step_examples(self) -> int:
        """The examples that throughput counts in one step, of all ranks."""
        return self.train_step.shard.total * self.task.examples_per_step(self._batch_size)

    @property
    def engine(self) -> EngineName | None:
        """The engine in use; None before `use_engine`."""
        return self._loop.engine if self._loop is not None else None

    def use_engine(self, engine: EngineName, first_step: int = 0) -> None:
        """Train the next steps with this engine; traces its loop."""
        self.use_loop(self.build_loop(engine, first_step))

    def use_loop(self, loop: Loop) -> None:
        """Train the next steps with this loop, which `build_loop` has made."""
        self._loop = loop

    def build_loop(self, engine: EngineName, first_step: int = 0) -> Loop:
        """A loop over the same variables; the one in use stays."""
        return Loop(
            self.train_step,
            self.state.scales,
            self.window(first_step).examples,
            batch_size=self._batch_size,
            engine=engine,
            seed=self._seed,
        )

    def position(self, step: int) -> tuple[int, int]:
        """The epoch of a step, and its batch in that epoch."""
        return self._plan.position(step)

    def example_indices(self, step: int) -> NDArray[np.int64]:
        """The indices of the training examples of a step."""
        return self._feed.order.of_step(*self._plan.position(step))

    def step_inputs(self, step: int) -> tuple[Batch, Any]:
        """The batch of a step, all micro-batches of this rank, and the step's seed."""
        _, batch = self._plan.position(step)
        window = self.window(step)
        size = self._batch_size * self.train_step.accumulate
        examples = slice_batch(window.examples, tf.constant(batch - window.first_batch), size)
        seed = step_seed(self._seed, tf.constant(step, tf.int64))
        return examples, seed

    def window(self, step: int) -> Window:
        """The examples that a step and those around it train on."""
        return self._feed.window(*self._plan.position(step))

    def run_block(
        self, first_step: int, *, max_steps: int | None = None, stop: StopCondition = NEVER_STOP
    ) -> StepBlock:
        """Train the next steps: as many as take about half a second.

        All ranks train as many as the one that wants the fewest.

        Args:
            first_step: The number of the first one.
            max_steps: The maximum number of steps.
            stop: After which steps the block ends early.
        """
        if self._loop is None:
            raise RuntimeError("No engine is set: call use_engine() before run_block().")
        # Waiting for data and ordering an epoch count as part of the steps.
        started_at = time.perf_counter()
        _, batch = self._plan.position(first_step)
        with phase_span(Phase.INPUT):
            window = self.window(first_step)
        available = min(self._plan.left_in_epoch(first_step), window.end_batch - batch)
        available = available if max_steps is None else min(available, max_steps)
        asked_at = time.perf_counter()
        self.input_s += asked_at - started_at
        count = min(self.communicator.all_gather_object(self._block_size.next_size(available)))
        start = time.perf_counter()
        self.state.scales, rows = self._loop.run(
            self.state.scales,
            window.examples,
            batch - window.first_batch,
            first_step,
            count,
            stop=stop,
        )
        ended = time.perf_counter()
        self._block_size.observe(len(rows), ended - start)
        if self.communicator.size > 1:
            # Before the block, too, it waits for the others: for one whose input is slow.
            in_steps_s = float(rows[:, -1].sum(dtype=np.float64))
            self.communication_s = start - asked_at + in_steps_s
        return step_block(
            first_step, self.train_step.columns, rows, ended - started_at, self.step_examples
        )

    def execute_zero_steps(self, step: int) -> None:
        """Call the compiled loop for zero steps, with the examples of a step; nothing changes."""
        if self._loop is not None:
            self._loop.execute_zero_steps(self.state.scales, self.window(step).examples)
