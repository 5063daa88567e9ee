"""The graph engine's and xla_loop's loop without records: what handing over every step costs.

No job runs like this. Losses, norms and rates are left out of the program where nothing else
needs them. A variant is named as in `training`.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import tensorflow as tf
from contest.serve import Round, serve

from ampcore.train.cut import lookup, view
from ampcore.train.loop import step_seed
from ours.training import session


def prepared(variant: str) -> Round:
    """An epoch in one call of a loop that remembers nothing of its steps."""
    problem, policy, loss_scale, engine = variant.split("-")
    own, xla = session(problem, policy, loss_scale), engine == "xla_loop"
    step, window = replace(own.step, xla=xla), own.window(0)
    size = window.examples.y.shape[0] // window.end_batch
    cut = lookup if xla else view

    def body(index: Any, states: Any) -> Any:
        batch = cut(window.examples, index, size)
        states, _ = step(states, batch, step_seed(0, tf.cast(index, tf.int64)))
        return index + 1, states

    @tf.function(autograph=False, jit_compile=xla)  # type: ignore[untyped-decorator]
    def loop(states: Any, count: Any) -> Any:
        _, states = tf.while_loop(lambda index, _: index < count, body, (tf.constant(0), states))
        return states

    states, count = own.states, tf.constant(window.end_batch)

    def trained() -> int:
        nonlocal states
        states = loop(states, count)
        states[0].scale.numpy()
        return window.end_batch

    return trained


if __name__ == "__main__":
    variants: dict[str, Callable[[], Any]] = {name: partial(prepared, name) for name in sys.argv}
    serve(variants, "ampcore", "tensorflow-cpu", "keras")
