"""The inner loop: many training steps in one call of one compiled function.

The state, the data and the records of the steps stay on the device; the host hears of a block
when it is done. Everything that changes between calls is a tensor, so it is traced once.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any, Final, Literal

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

SKIPPED: Final = 2
"""Where `skipped` stands in a row."""


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
        block = _block(_compiled(step, engine), width, size, engine, seed)
        self.function = tf.function(block, autograph=False, jit_compile=engine == "xla_loop")
        scalar = tf.TensorSpec([], tf.int32)
        # A concrete function cannot be traced again: other shapes would be an error.
        self._call = self.function.get_concrete_function(
            tf.nest.map_structure(tf.TensorSpec.from_tensor, states),
            tf.nest.map_structure(tf.TensorSpec.from_tensor, window),
            scalar,
            tf.TensorSpec([], tf.int64),
            scalar,
            tf.TensorSpec([], tf.bool),
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
        halt_on_skip: bool = False,
    ) -> NDArray[np.float32]:
        """Train up to `count` steps from batch `first_batch` of the window on.

        Returns one row a step, in the order of the step's columns. With `halt_on_skip` a skipped
        step is the last one: all but the loss scale is then as it was when that step ran. There
        may be fewer rows than asked for, never none.
        """
        count = min(count, MAX_STEPS) if self.engine == "xla_loop" else count
        self.states, records, done = self._call(
            self.states,
            window,
            tf.constant(first_batch),
            tf.constant(first_step, tf.int64),
            tf.constant(count),
            tf.constant(halt_on_skip),
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


def _block(
    step: Step, width: int, size: int, engine: EngineName, seed: int
) -> Callable[..., tuple[States, Tensor, Tensor]]:
    def block(  # noqa: PLR0917 - a compiled function is called by place
        states: States,
        window: Batch,
        first_batch: Tensor,
        first_step: Tensor,
        count: Tensor,
        halt_on_skip: Tensor,
    ) -> tuple[States, Tensor, Tensor]:
        capacity, cut = (MAX_STEPS, lookup) if engine == "xla_loop" else (count, view)
        records = tf.TensorArray(tf.float32, size=capacity, element_shape=(width,))

        def goes_on(index: Tensor, halted: Tensor, *_: Any) -> Tensor:
            return tf.logical_and(index < count, tf.logical_not(halted))

        def body(
            index: Tensor, _: Tensor, states: States, records: Any
        ) -> tuple[Tensor, Tensor, States, Any]:
            batch = cut(window, first_batch + index, size)
            own_seed = step_seed(seed, first_step + tf.cast(index, tf.int64))
            states, row = step(states, batch, own_seed)
            halted = tf.logical_and(halt_on_skip, row[SKIPPED] > 0)
            # One row for all values: a write costs the same for one number as for five.
            return index + 1, halted, states, records.write(index, row)

        done, _, states, records = tf.while_loop(
            goes_on, body, (tf.constant(0), tf.constant(False), states, records)
        )
        return states, records.stack(), done

    return block
