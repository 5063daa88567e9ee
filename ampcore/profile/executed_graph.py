"""The graph that TensorFlow executes for a loop, after its rewrites: the dtype of every operation.

TensorFlow's trace names operations but not their dtypes. The same loop is called once more, for
zero steps, while TensorFlow collects the graphs that it makes: they have the same operations under
the same names, and nothing is trained. It takes as long as optimising the graph.
"""

from collections.abc import Callable
from typing import Any, Final

import tensorflow as tf
from tensorflow.python.eager import context  # the only interface to executed graphs

from ampcore.profile.executed import (
    FLOATS,
    NO_FLOAT,
    SIXTEEN_BIT,
    ExecutedOperation,
    is_matrix_type,
    product_type,
    short_name,
)

DTYPE_ATTRIBUTES: Final = ("T", "dtype", "DstT", "Tparams", "out_type", "output_type")
"""The attributes of operations that name the dtype that they compute in, in order."""
FUSED: Final = "fused_ops"
"""The attribute of fused operations: what follows the product."""
ONEDNN: Final = "_Mkl"
"""The prefix of operations that oneDNN computes."""


def executed_operations(
    call: Callable[[], Any], *, computes_fast_in: Callable[[str], bool]
) -> list[ExecutedOperation]:
    """The operations that a call executes, with their names in a trace (`short_name`).

    Args:
        call: Calls a concrete function; the call must be without effect.
        computes_fast_in: Whether the CPU has instructions for a dtype.
    """
    wrapper = tf.function(call, autograph=False)
    collector = context.context()
    collector.enable_graph_collection()
    try:
        wrapper()
        collected = collector.export_run_metadata()
    finally:
        collector.disable_graph_collection()
    graphs = [
        graph for function in collected.function_graphs for graph in function.partition_graphs
    ]
    return [operation for graph in graphs for operation in _of_graph(graph, computes_fast_in)]


def _of_graph(graph: Any, computes_fast_in: Callable[[str], bool]) -> list[ExecutedOperation]:
    nodes = {node.name: node for node in graph.node}
    return [_read(node, nodes, computes_fast_in) for node in graph.node]


def _read(
    node: Any, nodes: dict[str, Any], computes_fast_in: Callable[[str], bool]
) -> ExecutedOperation:
    dtype, is_matrix = _dtype(node), is_matrix_type(node.op)
    inputs = [nodes[name] for name in map(_producer, node.input) if name in nodes]
    native: bool | None = None
    if "device:CPU" in node.device and is_matrix and dtype in SIXTEEN_BIT:
        # Other libraries than oneDNN convert every number to float32 and back.
        native = node.op.startswith(ONEDNN) and computes_fast_in(dtype)
    return ExecutedOperation(
        name=short_name(node.name),
        type=node.op,
        dtype=dtype,
        is_matrix=is_matrix,
        is_cast=node.op == "Cast",
        casts_back=is_matrix and dtype == "float32" and any(map(_is_cast_from_16_bit, inputs)),
        native=native,
        fused=_fused(node) if is_matrix else (),
    )


def _fused(node: Any) -> tuple[str, ...]:
    """A product and what TensorFlow or oneDNN has fused with it; () without that."""
    fused = [name.decode() for name in node.attr[FUSED].list.s] if FUSED in node.attr else []
    return (product_type(node.op), *fused) if fused else ()


def _producer(name: str) -> str:
    return name.removeprefix("^").partition(":")[0]


def _dtype(node: Any) -> str:
    for attribute in DTYPE_ATTRIBUTES:
        if attribute in node.attr and node.attr[attribute].WhichOneof("value") == "type":
            name = str(tf.as_dtype(node.attr[attribute].type).base_dtype.name)
            name = "float8" if name.startswith("float8") else name
            return name if name in FLOATS else NO_FLOAT
    return NO_FLOAT


def _is_cast_from_16_bit(node: Any) -> bool:
    return (
        node.op == "Cast"
        and tf.as_dtype(node.attr["SrcT"].type).name in SIXTEEN_BIT
        and tf.as_dtype(node.attr["DstT"].type).name == "float32"
    )
