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
from ampcore.precision import LossScaleStates
from ampcore.profile.phases import Phase
from ampcore.profile.scopes import phase_scope
from ampcore.train.batch_slicing import gather_batch, slice_batch
from ampcore.train.split_step import Step, split_step
from ampcore.train.step import TrainStep
from ampcore.train.telemetry_row import STEP_COLUMNS

Tensor = Any
EngineName = Literal["graph", "xla_step", "xla_loop"]

ENGINES: Final[tuple[EngineName, ...]] = ("graph", "xla_step", "xla_loop")
"""graph: TensorFlow's own executor. xla_step: the step compiled by XLA, the loop around it not.
xla_loop: all of it in one XLA program."""

MAX_STEPS: Final = 4096
"""The maximum number of steps per call of xla_loop, whose shapes are fixed at compile time."""

_LOSS, _SKIPPED, _GRAD_NORM = map(STEP_COLUMNS.index, ("loss", "skipped", "grad_norm"))


class Halt(NamedTuple):
    """When a block ends before its last step: after `limit` bad steps in a row.

    A bad step is a skipped step; without a finite check, one with a non-finite loss or gradient
    norm. `bad_steps` is the number of bad steps directly before the block.
    """

    bad_steps: int = 0
    limit: int = 2**31 - 1


NEVER_HALT: Final = Halt()
HALT_ON_SKIP: Final = Halt(limit=1)
"""After the first bad step."""


def engine_name(text: str) -> EngineName:
    """The engine with this name; graph for an unknown name in another version's checkpoint."""
    return next((name for name in ENGINES if name == text), "graph")


class Loop:
    """The compiled loop over the steps of one window of examples.

    It is traced when it is created; XLA compiles it in the first call of `run`.

    Args:
        step: The function of one step.
        states: The states of the loss scales in the next step; the attribute follows the steps.
        window: Examples with the shapes and dtypes for `run`.
        batch_size: The examples of a micro-batch.
        engine: The engine that executes it.
        seed: That of the job.
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
        self.states = states
        self.engine = engine
        width = step.row_width
        size = batch_size * step.accumulate
        step = step if engine == "graph" else step.for_xla()
        bad = _was_skipped if any(step.checks) else _is_not_finite
        draw_seed = partial(step_seed, seed)
        block = _make_block(_compiled(step, engine), bad, width, size, engine, draw_seed)
        self.function = tf.function(block, autograph=False, jit_compile=engine == "xla_loop")
        scalar = tf.TensorSpec([], tf.int32)
        # A concrete function cannot be traced again: other shapes would be an error.
        self._call = self.function.get_concrete_function(
            tf.nest.map_structure(tf.TensorSpec.from_tensor, states),
            tf.nest.map_structure(tf.TensorSpec.from_tensor, window),
            scalar,
            tf.TensorSpec([], tf.int64),
            scalar,
            Halt(scalar, scalar),
        )

    @cached_property
    def operations(self) -> Counter[str]:
        """How often each TensorFlow operation occurs in the loop and in the functions it calls."""
        graph = self._call.graph.as_graph_def()
        nodes = chain(graph.node, *(function.node_def for function in graph.library.function))
        return Counter(node.op for node in nodes)

    def run_no_step(self, window: Batch) -> None:
        """Call the compiled function for zero steps: nothing changes."""
        zero = tf.constant(0)
        self._call(self.states, window, zero, tf.constant(0, tf.int64), zero, _never_halt())

    def run(
        self,
        window: Batch,
        first_batch: int,
        first_step: int,
        count: int,
        *,
        halt: Halt = NEVER_HALT,
    ) -> NDArray[np.float32]:
        """Train up to `count` steps.

        Args:
            window: The examples.
            first_batch: The batch of the window that the first step trains on.
            first_step: The number of that step.
            count: The maximum number of steps.
            halt: After which bad steps the block ends; if the last step was skipped, only the loss
                scale has changed since before that step.

        Returns:
            One row per completed step, float32 (steps, `TrainStep.row_width`), at least one.
        """
        count = min(count, MAX_STEPS) if self.engine == "xla_loop" else count
        self.states, records, done = self._call(
            self.states,
            window,
            tf.constant(first_batch),
            tf.constant(first_step, tf.int64),
            tf.constant(count),
            Halt(tf.constant(halt.bad_steps), tf.constant(halt.limit)),
        )
        rows: NDArray[np.float32] = records.numpy()
        return rows[: int(done)]


def _never_halt() -> Halt:
    return Halt(*map(tf.constant, NEVER_HALT))


def _compiled(step: TrainStep, engine: EngineName) -> Step:
    if engine != "xla_step":
        return step
    if step.replicas.size > 1:
        return split_step(step)
    compiled: Step = tf.function(step.__call__, autograph=False, jit_compile=True)
    return compiled


def _was_skipped(row: Tensor) -> Tensor:
    return row[_SKIPPED] > 0


def _is_not_finite(row: Tensor) -> Tensor:
    finite = tf.math.is_finite(row)
    return tf.logical_not(tf.logical_and(finite[_LOSS], finite[_GRAD_NORM]))


def _make_block(  # noqa: PLR0917 - what is fixed when the loop is traced
    step: Step,
    bad: Callable[[Tensor], Tensor],
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
        halt: Halt,
    ) -> tuple[LossScaleStates, Tensor, Tensor]:
        capacity, cut = (MAX_STEPS, gather_batch) if engine == "xla_loop" else (count, slice_batch)
        records = tf.TensorArray(tf.float32, size=capacity, element_shape=(width,))

        def should_continue(index: Tensor, bad_steps: Tensor, halted: Tensor, *_: Any) -> Tensor:
            return tf.logical_and(index < count, tf.logical_not(halted))

        def body(
            index: Tensor, bad_steps: Tensor, _: Tensor, states: LossScaleStates, records: Any
        ) -> tuple[Tensor, Tensor, Tensor, LossScaleStates, Any]:
            with phase_scope(Phase.INPUT):
                batch = cut(window, first_batch + index, size)
                seed = draw_seed(first_step + tf.cast(index, tf.int64))
            states, row = step(states, batch, seed)
            is_bad = bad(row)
            bad_steps = tf.where(is_bad, bad_steps + 1, 0)
            # A run that failed at its limit may start with as many: a good step must not halt it.
            halted = tf.logical_and(is_bad, bad_steps >= halt.limit)
            # One row for all values: writing one number costs as much as writing five.
            return index + 1, bad_steps, halted, states, records.write(index, row)

        start = (tf.constant(0), halt.bad_steps, tf.constant(False), states, records)
        done, _, _, states, records = tf.while_loop(should_continue, body, start)
        return states, records.stack(), done

    return block
