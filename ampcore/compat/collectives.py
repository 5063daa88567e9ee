"""Communication between the ranks of a loop, with the names that Horovod gave it.

A program on its own is one rank: every function returns what it is given. Of several, `python -m
ampcore launch` starts the processes and tells each which rank it is.
"""

import atexit
import sys
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol, get_args

import tensorflow as tf

from ampcore.compat.graph_context import is_session_graph
from ampcore.compat.session_server import SessionRanks, session_config, start_server
from ampcore.distributed import (
    Cluster,
    ReduceOp,
    SingleRank,
    cluster_from_environment,
    connect_from_environment,
    environment,
)
from ampspec.errors import AddressInUse

Tensor = Any

_OPERATIONS: Final = get_args(ReduceOp)


class Ranks(Protocol):
    """The communication that a loop needs: a part of `ampcore.distributed.Communicator`.

    Tensors are tf.Tensor, not values that can be converted to one.
    """

    @property
    def size(self) -> int:
        """The number of ranks."""

    @property
    def rank(self) -> int:
        """The number of this rank."""

    def all_reduce(self, tensors: Sequence[Tensor], op: ReduceOp) -> list[Tensor]:
        """Combine each tensor with those of the other ranks."""

    def all_gather(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Concatenate each tensor with those of the other ranks along the first axis."""

    def broadcast(self, tensors: Sequence[Tensor], root: int) -> list[Tensor]:
        """The tensors of the rank `root`."""


class _Process:
    """What this process is connected with; a process is one rank, of one kind."""

    def __init__(self) -> None:
        self.ranks: Ranks | None = None
        self.session_ranks: Ranks | None = None
        self.server: Any = None
        self.reduced: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


_process = _Process()


def init(ranks: Ranks | None = None, *, config: Any = None) -> None:
    """Connect this process with the other ranks, as `hvd.init()`: before the first tensor.

    In the graph-and-session form call it where the graph of the loop is the default one, or after
    `tf.compat.v1.disable_eager_execution()`.

    Args:
        ranks: What `ampcore.distributed.connect` returned, for a program that connects itself;
            None: the ranks that `python -m ampcore launch` has started.
        config: A tf.compat.v1.ConfigProto for the devices of all sessions of this process, such as
            `gpu_options`; a session that is one of several ranks does not set devices up itself.
            Each rank gets the GPU of its local rank.

    Raises:
        RankDisconnected: Another rank did not connect in time.
        ValueError: The environment variable AMPCORE_CLUSTER is not the JSON of a cluster.
    """
    cluster = cluster_from_environment()
    if ranks is not None:
        _process.ranks = ranks
    elif not is_session_graph():
        connected = connect_from_environment()
        _process.ranks = connected

        def close() -> None:
            # After an error the others must not take this rank for one that has finished.
            if getattr(sys, "last_value", None) is None:
                connected.close()

        atexit.register(close)
    elif cluster is not None and cluster.size > 1 and _process.server is None:
        try:
            _process.server = start_server(cluster, config)
        except AddressInUse as error:
            # As connect_from_environment: the launcher then starts all ranks with other ports.
            sys.stderr.write(f"{error}\n")
            raise SystemExit(environment.ADDRESS_IN_USE) from error
        _process.session_ranks = SessionRanks(cluster)


def rank() -> int:
    """The number of this rank, from 0."""
    ranks = _process.ranks
    return _cluster_value("rank", 0) if ranks is None else ranks.rank


def size() -> int:
    """The number of ranks."""
    ranks = _process.ranks
    return _cluster_value("size", 1) if ranks is None else ranks.size


def local_rank() -> int:
    """The number of this rank's device on its machine, from 0."""
    return _cluster_value("local_rank", 0)


def current_ranks() -> Ranks:
    """The ranks for the code that runs now.

    Raises:
        RuntimeError: There are several, and `init` was not called.
    """
    ranks = _process.session_ranks if is_session_graph() else _process.ranks
    if ranks is not None:
        return ranks
    if size() > 1:
        raise RuntimeError(
            f"Expected a call of ampcore.compat.init() before this one: the process is rank "
            f"{rank()} of {size()}. Received: none, or one in the other form (TF 2, or graph and "
            "session)."
        )
    return SingleRank()


def all_reduce(
    tensor: Any,
    average: bool | None = None,
    *,
    op: ReduceOp | None = None,
    name: str | None = None,
) -> Any:
    """Combine a tensor with those of the other ranks, as `hvd.allreduce`.

    It works in eager code, in tf.function and in a session's graph, but not with jit_compile if
    there are several ranks. All ranks call it in the same order.

    Args:
        tensor: A tensor; a tf.IndexedSlices, which stays sparse: it gets the rows of all ranks,
            each of which must have the same number; or a list of them, some perhaps None.
        average: True is `op="mean"`, False `op="sum"`, as in older versions of Horovod.
        op: "mean" (the default), "sum" or "max"; sparse gradients have no "max".
        name: Of the result in a graph.

    Raises:
        ValueError: `average` and `op` are both given, or `op` is unknown.
    """
    operation = _operation(average, op)
    tensors = tensor if isinstance(tensor, list | tuple) else [tensor]
    reduced = _all_reduce(current_ranks(), tensors, operation)
    if name is not None:
        reduced = [value if value is None else _with_name(value, name) for value in reduced]
    mark_reduced(reduced)
    return reduced if isinstance(tensor, list | tuple) else reduced[0]


def mark_reduced(values: Iterable[Any]) -> None:
    """Remember that these gradients are combined already: `apply_gradients` leaves them so."""
    for value in values:
        if value is not None:
            _process.reduced[id(value)] = value


def keep_reduced_mark(grads: Sequence[Any], unscaled: Sequence[Any]) -> None:
    """Mark those gradients of `unscaled` as reduced that were in `grads` before."""
    pairs = zip(grads, unscaled, strict=True)
    mark_reduced(value for grad, value in pairs if _is_reduced(grad))


def _is_reduced(grad: Any) -> bool:
    return grad is not None and _process.reduced.get(id(grad)) is grad


def all_gather(tensor: Tensor) -> Tensor:
    """Concatenate a tensor with those of the other ranks along the first axis, by rank.

    All ranks pass the same shape.
    """
    ranks = current_ranks()
    return tensor if ranks.size == 1 else ranks.all_gather([tf.convert_to_tensor(tensor)])[0]


def broadcast_variables(variables: Iterable[Any], root_rank: int = 0) -> Any:
    """Give all ranks the values that variables have on one, as `hvd.broadcast_variables`.

    In TF 2 call it when the variables exist, before the first step. In a session's graph it returns
    an operation, to be run after the initializers: `broadcast_variables(tf.global_variables())`.

    Args:
        variables: The same on all ranks, in the same order; not those of rows that a rank owns.
        root_rank: The rank whose values all get.

    Raises:
        ValueError: There is no such rank.
    """
    if not 0 <= root_rank < size():
        raise ValueError(
            f"root_rank: expected a rank from 0 to {size() - 1}. Received: {root_rank}."
        )
    ranks, targets = current_ranks(), list(variables)
    if ranks.size == 1:
        return tf.no_op() if is_session_graph() else None
    values = ranks.broadcast([tf.convert_to_tensor(variable) for variable in targets], root_rank)
    assigned = [variable.assign(value) for variable, value in zip(targets, values, strict=True)]
    return tf.group(assigned) if is_session_graph() else None


def reduced_gradients(ranks: Ranks, grads: Sequence[Any], average: bool | None) -> list[Any]:
    """The means of the gradients over the ranks; those that `all_reduce` returned stay.

    Args:
        ranks: The ranks.
        grads: Tensors, tf.IndexedSlices and None.
        average: Whether to average them; None: only in TF 2.

    Raises:
        ValueError: `average` is None where it cannot be known: there are sparse gradients.
    """
    if ranks.size == 1 or average is False or (average is None and is_session_graph()):
        return list(grads)
    positions = [
        index for index, grad in enumerate(grads) if grad is not None and not _is_reduced(grad)
    ]
    sparse = sum(isinstance(grads[index], tf.IndexedSlices) for index in positions)
    if average is None and sparse:
        raise ValueError(
            f"experimental_aggregate_gradients: expected True or False for sparse gradients on "
            f"{ranks.size} ranks: False if each rank owns its rows, True if all ranks have the "
            f"same table. Received: None, with {sparse} sparse gradients."
        )
    means = _all_reduce(ranks, [grads[index] for index in positions], "mean")
    mean_by_position = dict(zip(positions, means, strict=True))
    return [mean_by_position.get(index, grad) for index, grad in enumerate(grads)]


def session(graph: Any = None, config: Any = None) -> Any:
    """A session in which `all_reduce` reaches the other ranks; with one rank an ordinary one.

    Args:
        graph: The graph; None: the default one.
        config: A tf.compat.v1.ConfigProto; devices are those of this rank.

    Raises:
        RuntimeError: There are several ranks, and `init` was not called.
    """
    cluster, server = cluster_from_environment(), _process.server
    if cluster is None or cluster.size == 1:
        return tf.compat.v1.Session(graph=graph, config=config)
    if server is None:
        raise RuntimeError(
            "Expected a call of ampcore.compat.init() before the session, where its graph is the "
            f"default one: the process is rank {cluster.rank} of {cluster.size}. Received: none."
        )
    return tf.compat.v1.Session(server.target, graph=graph, config=session_config(cluster, config))


def _cluster_value(name: str, alone: int) -> int:
    cluster: Cluster | None = cluster_from_environment()
    return alone if cluster is None else int(getattr(cluster, name))


def _operation(average: bool | None, op: ReduceOp | None) -> ReduceOp:
    if op is None:
        return "sum" if average is False else "mean"
    if average is not None:
        raise ValueError(f"Expected average or op. Received: average={average}, op={op!r}.")
    if op not in _OPERATIONS:
        raise ValueError(f"op: expected one of {', '.join(_OPERATIONS)}. Received: {op!r}.")
    return op


def _all_reduce(ranks: Ranks, tensors: Sequence[Any], op: ReduceOp) -> list[Any]:
    """Dense tensors in one call; of sparse ones the rows of all ranks. None stays None."""
    if ranks.size == 1:
        return list(tensors)
    dense = [
        tf.convert_to_tensor(tensor)
        for tensor in tensors
        if tensor is not None and not _is_sparse(tensor)
    ]
    reduced = iter(ranks.all_reduce(dense, op) if dense else [])

    def reduce(tensor: Any) -> Any:
        if tensor is None:
            return None
        return _gathered(ranks, tensor, op) if _is_sparse(tensor) else next(reduced)

    return [reduce(tensor) for tensor in tensors]


def _gathered(ranks: Ranks, slices: Any, op: ReduceOp) -> Any:
    if op == "max":
        raise ValueError('op: expected "mean" or "sum" for tf.IndexedSlices. Received: "max".')
    values, indices = ranks.all_gather([slices.values, slices.indices])
    factor = 1.0 / ranks.size if op == "mean" else 1.0
    return tf.IndexedSlices(values * tf.cast(factor, values.dtype), indices, slices.dense_shape)


def _is_sparse(value: Any) -> bool:
    return isinstance(value, tf.IndexedSlices)


def _with_name(value: Any, name: str) -> Any:
    if _is_sparse(value):
        return tf.IndexedSlices(tf.identity(value.values, name), value.indices, value.dense_shape)
    return tf.identity(value, name)
