"""The inner loop: many training steps in one call of one compiled function.

The state, the data and the rows of the steps stay on the device until a block is done. Everything
that changes between calls is a tensor, so the loop is traced once.
"""

from collections import Counter
from collections.abc import Callable
from functools import cached_property, partial
from itertools import chain
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.data import Batch
from ampcore.models.seeds import step_seed
from ampcore.phase_scopes import phase_scope
from ampcore.phases import Phase
from ampcore.precision import LossScaleStates
from ampcore.training.step.batch_slicing import gather_batch, slice_batch
from ampcore.training.step.split_step import Step, split_step
from ampcore.training.step.telemetry_columns import STEP_COLUMNS
from ampcore.training.step.train_step import TrainStep

Tensor = Any
EngineName = Literal["graph", "xla_step", "xla_loop"]

ENGINES: Final[tuple[EngineName, ...]] = ("graph", "xla_step", "xla_loop")
"""graph: TensorFlow's own executor. xla_step: the step compiled by XLA, the loop around it not.
xla_loop: all of it in one XLA program."""

MAX_STEPS: Final = 4096
"""The maximum number of steps per call of xla_loop, whose shapes are fixed at compile time."""

_LOSS, _SKIPPED, _GRAD_NORM = map(STEP_COLUMNS.index, ("loss", "skipped", "grad_norm"))


class StopCondition(NamedTuple):
    """When a block ends before its last step: after `limit` non-finite steps in a row.

    A non-finite step is a skipped one; without a finite check, one with a non-finite loss or
    gradient norm. `nonfinite_steps` is the number of them directly before the block.
    """

    nonfinite_steps: int = 0
    limit: int = 2**31 - 1


NEVER_STOP: Final = StopCondition()
STOP_AT_SKIP: Final = StopCondition(limit=1)
"""After the first non-finite step."""


def engine_name(text: str) -> EngineName:
    """The engine with this name; graph for an unknown name in another version's checkpoint."""
    return next((name for name in ENGINES if name == text), "graph")


class Loop:
    """The compiled loop over the steps of one window of examples.

    It is traced when it is created; XLA compiles it in the first call of `run`.

    Args:
        step: The function of one step.
        states: States of the loss scales with the shapes and dtypes for `run`.
        window: Examples with the shapes and dtypes for `run`.
        batch_size: The examples of a micro-batch.
        engine: The engine that executes it.
        seed: The seed of the job.
    """

    def __init__(
        self,
        step: TrainStep,
        states: LossScaleStates,
        window: Batch,
        *,
        batch_size: int,
        engine: EngineName = "graph",
        seed: int = 0,
    ) -> None:
        self.engine = engine
        width = step.row_width
        size = batch_size * step.accumulate
        step = step if engine == "graph" else step.for_xla()
        is_nonfinite = _was_skipped if step.checks_finite else _has_nonfinite_values
        draw_seed = partial(step_seed, seed)
        block = _make_block(_compiled(step, engine), is_nonfinite, width, size, engine, draw_seed)
        self.function = tf.function(block, autograph=False, jit_compile=engine == "xla_loop")
        scalar = tf.TensorSpec([], tf.int32)
        # A concrete function cannot be traced again: other shapes would be an error.
        self._call = self.function.get_concrete_function(
            tf.nest.map_structure(tf.TensorSpec.from_tensor, states),
            tf.nest.map_structure(tf.TensorSpec.from_tensor, window),
            scalar,
            tf.TensorSpec([], tf.int64),
            scalar,
            StopCondition(scalar, scalar),
        )

    @cached_property
    def operations(self) -> Counter[str]:
        """How often each TensorFlow operation occurs in the loop and in the functions it calls."""
        graph = self._call.graph.as_graph_def()
        nodes = chain(graph.node, *(function.node_def for function in graph.library.function))
        return Counter(node.op for node in nodes)

    def execute_zero_steps(self, states: LossScaleStates, window: Batch) -> None:
        """Call the compiled function for zero steps: nothing changes."""
        zero = tf.constant(0)
        never = StopCondition(*map(tf.constant, NEVER_STOP))
        self._call(states, window, zero, tf.constant(0, tf.int64), zero, never)

    def run(
        self,
        states: LossScaleStates,
        window: Batch,
        first_batch: int,
        first_step: int,
        count: int,
        *,
        stop: StopCondition = NEVER_STOP,
    ) -> tuple[LossScaleStates, NDArray[np.float32]]:
        """Train up to `count` steps.

        Args:
            states: The states of the loss scales.
            window: The examples.
            first_batch: The batch of the window that the first step trains on.
            first_step: The number of that step.
            count: The maximum number of steps.
            stop: When the block ends early; if the last step was skipped, only the loss scale has
                changed since before that step.

        Returns:
            The states of the next step; and one row per completed step, float32
            (steps, `TrainStep.row_width`), at least one.
        """
        count = min(count, MAX_STEPS) if self.engine == "xla_loop" else count
        next_states, records, done = self._call(
            states,
            window,
            tf.constant(first_batch),
            tf.constant(first_step, tf.int64),
            tf.constant(count),
            StopCondition(*map(tf.constant, stop)),
        )
        rows: NDArray[np.float32] = records.numpy()
        return next_states, rows[: int(done)]


def _compiled(step: TrainStep, engine: EngineName) -> Step:
    if engine != "xla_step":
        return step
    if step.communicator.size > 1:
        return split_step(step)
    compiled: Step = tf.function(step.__call__, autograph=False, jit_compile=True)
    return compiled


def _was_skipped(row: Tensor) -> Tensor:
    return row[_SKIPPED] > 0


def _has_nonfinite_values(row: Tensor) -> Tensor:
    finite = tf.math.is_finite(row)
    return tf.logical_not(tf.logical_and(finite[_LOSS], finite[_GRAD_NORM]))


def _make_block(  # noqa: PLR0917 - what is fixed when the loop is traced
    step: Step,
    is_nonfinite: Callable[[Tensor], Tensor],
    width: int,
    size: int,
    engine: EngineName,
    draw_seed: Callable[[Tensor], Tensor],
) -> Callable[..., tuple[LossScaleStates, Tensor, Tensor]]:
    def block(  # noqa: PLR0917 - a compiled function is called by place
        states: LossScaleStates,
        window: Batch,
        first_batch: Tensor,
        first_step: Tensor,
        count: Tensor,
        stop: StopCondition,
    ) -> tuple[LossScaleStates, Tensor, Tensor]:
        capacity, cut = (MAX_STEPS, gather_batch) if engine == "xla_loop" else (count, slice_batch)
        records = tf.TensorArray(tf.float32, size=capacity, element_shape=(width,))

        def should_continue(index: Tensor, _in_a_row: Tensor, stopped: Tensor, *_: Any) -> Tensor:
            return tf.logical_and(index < count, tf.logical_not(stopped))

        def body(
            index: Tensor, in_a_row: Tensor, _: Tensor, states: LossScaleStates, records: Any
        ) -> tuple[Tensor, Tensor, Tensor, LossScaleStates, Any]:
            with phase_scope(Phase.INPUT):
                batch = cut(window, first_batch + index, size)
                seed = draw_seed(first_step + tf.cast(index, tf.int64))
            states, row = step(states, batch, seed)
            nonfinite = is_nonfinite(row)
            in_a_row = tf.where(nonfinite, in_a_row + 1, 0)
            # A run that failed at its limit may start with as many: a finite step must not stop it.
            stopped = tf.logical_and(nonfinite, in_a_row >= stop.limit)
            # One row for all values: writing one number costs as much as writing five.
            return index + 1, in_a_row, stopped, states, records.write(index, row)

        start = (tf.constant(0), stop.nonfinite_steps, tf.constant(False), states, records)
        done, _, _, states, records = tf.while_loop(should_continue, body, start)
        return states, records.stack(), done

    return block
