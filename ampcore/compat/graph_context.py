"""Where code runs: eagerly, while a tf.function is traced, or while a graph of TF 1 is built."""

from typing import Any, Final

import tensorflow as tf

Graph = Any

as_written = tf.autograph.experimental.do_not_convert
"""For code that needs no conversion where a tf.function calls it, or that cannot be converted."""

_CONTROL_FLOW: Final = ("WhileBodyFuncGraph", "CondBranchFuncGraph")
"""TensorFlow's classes of the graphs of loop bodies and branches."""


def current_graph() -> Graph | None:
    """The graph that operations are added to now; None in eager mode."""
    return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


def session_graph() -> Graph | None:
    """The graph that operations are added to and that a session runs, as in TF 1; None in TF 2."""
    with tf.init_scope():  # leaves tf.function and branches
        return current_graph()


def is_session_graph() -> bool:
    """Whether operations are added to a graph that a session runs.

    Only there nothing orders operations but control dependencies.
    """
    return session_graph() is not None


def can_read_from(graph: Graph | None) -> bool:
    """Whether the present code can use a tensor that was made in `graph` (None: in eager mode).

    A branch or a loop body can use tensors of the graph around it. An eager tensor of an earlier
    call would be a constant in a graph, so it does not count.
    """
    current = current_graph()
    if graph is None or current is None:
        return graph is current
    while current is not None and current is not graph:
        current = getattr(current, "outer_graph", None)
    return current is graph


def is_around(graph: Graph | None) -> bool:
    """Whether the present code is around a loop body or branch whose graph is `graph`.

    It is not around another tf.function that it calls, which is not traced again in each trace of
    this code.
    """
    current = current_graph()
    if graph is None or current is None or graph is current:
        return False
    while graph is not current and type(graph).__name__ in _CONTROL_FLOW:
        graph = graph.outer_graph
    return graph is current


def describe(graph: Graph | None) -> str:
    """For an error message: "eager code", or the name of the tf.function or graph."""
    if graph is None:
        return "eager code"
    name = getattr(graph, "name", None)
    return f"the tf.function {name}" if name else "a graph"
