"""The inner loop: many training steps in one call of one compiled function.

The state, the data and the records of the steps stay on the device; the host hears of a block
when it is done. Everything that changes between calls is a tensor, so it is traced once.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.data import Batch
from ampcore.models.gradients import States
from ampcore.train.cut import lookup, view
from ampcore.train.step import TrainStep

Tensor = Any
Step = Callable[[States, Batch, Tensor], tuple[States, Tensor]]
EngineName = Literal["graph", "xla_step", "xla_loop"]

ENGINES: Final[tuple[EngineName, ...]] = ("graph", "xla_step", "xla_loop")
"""graph: TensorFlow's own executor. xla_step: the step compiled by XLA, the loop around it not.
xla_loop: all of it in one XLA program."""

MAX_STEPS: Final = 4096
"""In one call of xla_loop, whose shapes are fixed when it is compiled."""

LOSS: Final = 0
SKIPPED: Final = 2
GRAD_NORM: Final = 3
"""Where these columns stand in a row."""


class Halt(NamedTuple):
    """When a block ends before its last step: after `limit` bad steps in a row.

    A bad step was skipped; without a finite check, one with a loss or a gradient norm that is not
    finite. `bad_steps` of them in a row came right before the block.
    """

    bad_steps: int = 0
    limit: int = 2**31 - 1


NEVER: Final = Halt()
ON_SKIP: Final = Halt(limit=1)
"""After the first bad step."""


def engine_name(text: str) -> EngineName:
    """The engine of this name; graph where a checkpoint of another version names an unknown one."""
    return next((name for name in ENGINES if name == text), "graph")


class Loop:
    """The compiled loop over the steps of one window of examples.

    `states` are those of the step after the last one. Tracing happens here; compiling, with
    XLA, in the first call of `run`.
    """

    def __init__(
        self,
        step: TrainStep,
        states: States,
        window: Batch,
        *,
        batch_size: int,
        engine: EngineName = "graph",
        seed: int = 0,
    ) -> None:
        self.states = states
        self.engine = engine
        width = len(step.columns)
        size = batch_size * step.accumulate
        step = replace(step, xla=engine != "graph")
        checked = any(scale.checks_finite for scale in step.loss_scales)
        bad = _was_skipped if checked else _is_not_finite
        block = _block(_compiled(step, engine), bad, width, size, engine, seed)
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
        """How often each TensorFlow operation stands in the loop and in what it calls."""
        graph = self._call.graph.as_graph_def()
        nodes = chain(graph.node, *(function.node_def for function in graph.library.function))
        return Counter(node.op for node in nodes)

    def run(
        self,
        window: Batch,
        first_batch: int,
        first_step: int,
        count: int,
        *,
        halt: Halt = NEVER,
    ) -> NDArray[np.float32]:
        """Train up to `count` steps from batch `first_batch` of the window on.

        Returns one row a step, in the order of the step's columns. `halt` says which step is the
        last one at the latest: when that was skipped, everything but the loss scale is as it was
        when the step ran. There may be fewer rows than asked for, never none.
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


def _compiled(step: TrainStep, engine: EngineName) -> Step:
    if engine != "xla_step":
        return step
    compiled: Step = tf.function(step.__call__, autograph=False, jit_compile=True)
    return compiled


def step_seed(seed: int, step: Tensor) -> Tensor:
    """The seed, int64 (2,), of the noise in one step: `step`, int64, of a job with `seed`."""
    return tf.stack([tf.constant(seed, tf.int64), step])


def _was_skipped(row: Tensor) -> Tensor:
    return row[SKIPPED] > 0


def _is_not_finite(row: Tensor) -> Tensor:
    finite = tf.math.is_finite(row)
    return tf.logical_not(tf.logical_and(finite[LOSS], finite[GRAD_NORM]))


def _block(  # noqa: PLR0917 - what is fixed when the loop is traced
    step: Step,
    bad: Callable[[Tensor], Tensor],
    width: int,
    size: int,
    engine: EngineName,
    seed: int,
) -> Callable[..., tuple[States, Tensor, Tensor]]:
    def block(  # noqa: PLR0917 - a compiled function is called by place
        states: States,
        window: Batch,
        first_batch: Tensor,
        first_step: Tensor,
        count: Tensor,
        halt: Halt,
    ) -> tuple[States, Tensor, Tensor]:
        capacity, cut = (MAX_STEPS, lookup) if engine == "xla_loop" else (count, view)
        records = tf.TensorArray(tf.float32, size=capacity, element_shape=(width,))

        def goes_on(index: Tensor, bad_steps: Tensor, halted: Tensor, *_: Any) -> Tensor:
            return tf.logical_and(index < count, tf.logical_not(halted))

        def body(
            index: Tensor, bad_steps: Tensor, _: Tensor, states: States, records: Any
        ) -> tuple[Tensor, Tensor, Tensor, States, Any]:
            batch = cut(window, first_batch + index, size)
            own_seed = step_seed(seed, first_step + tf.cast(index, tf.int64))
            states, row = step(states, batch, own_seed)
            is_bad = bad(row)
            bad_steps = tf.where(is_bad, bad_steps + 1, 0)
            # A run that failed at its limit may begin with as many: a good step is no halt then.
            halted = tf.logical_and(is_bad, bad_steps >= halt.limit)
            # One row for all values: a write costs the same for one number as for five.
            return index + 1, bad_steps, halted, states, records.write(index, row)

        start = (tf.constant(0), halt.bad_steps, tf.constant(False), states, records)
        done, _, _, states, records = tf.while_loop(goes_on, body, start)
        return states, records.stack(), done

    return block
