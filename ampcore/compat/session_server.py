"""TensorFlow's server of a rank in the graph-and-session form: its sessions reach the others."""

from collections.abc import Sequence
from typing import Any, Final

import tensorflow as tf

from ampcore.distributed import Cluster, ReduceOp
from ampcore.distributed.collectives import Collectives
from ampcore.distributed.connection import LEADER, check_port

Tensor = Any

JOB: Final = "worker"
"""The job of all ranks, as `LEADER` names it."""


def start_server(cluster: Cluster, config: Any) -> Any:
    """Start the server of this rank.

    Args:
        cluster: The ranks, and which of them this process is.
        config: A tf.compat.v1.ConfigProto with options of devices, or None.

    Raises:
        AddressInUse: Another process uses the port of this rank.
    """
    check_port(cluster.addresses[cluster.rank])
    rank_config = session_config(cluster, config)
    if tf.config.experimental.list_physical_devices("GPU"):
        rank_config.gpu_options.visible_device_list = str(cluster.local_rank)
    return tf.compat.v1.train.Server(
        tf.compat.v1.train.ClusterSpec({JOB: list(cluster.addresses)}),
        job_name=JOB,
        task_index=cluster.rank,
        config=rank_config,
    )


class SessionRanks:
    """The ranks for a graph that sessions of these servers run.

    All operations are placed on the server of this rank. So an ordinary session, which cannot reach
    the other ranks, reports an unknown device; otherwise it would wait for them.

    Args:
        cluster: The ranks, and which of them this process is.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.size, self.rank = cluster.size, cluster.rank
        self._server = server_of(cluster)
        # RING on GPUs, too: NCCL needs a token that orders the operations, a variable of TF 2.
        # No exchange in place of small reductions: a session cannot run one without another
        # collective operation beside it.
        # The timeout is that of the session: see `session_config`.
        self._collectives = Collectives(cluster.rank, cluster.size, "RING", small_bytes=None)

    def all_reduce(self, tensors: Sequence[Tensor], op: ReduceOp) -> list[Tensor]:
        """Combine each tensor with those of the other ranks."""
        with tf.device(self._server):
            return self._collectives.all_reduce(tensors, op)

    def all_gather(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Concatenate each tensor with those of the other ranks along the first axis."""
        with tf.device(self._server):
            return self._collectives.all_gather(tensors)

    def broadcast(self, tensors: Sequence[Tensor], root: int) -> list[Tensor]:
        """The tensors of the rank `root`."""
        with tf.device(self._server):
            return self._collectives.broadcast(tensors, root)


def server_of(cluster: Cluster) -> str:
    """The part of a device's name that names the server of this rank."""
    return f"/job:{JOB}/task:{cluster.rank}"


def session_config(cluster: Cluster, config: Any) -> Any:
    """A copy of a session's configuration, which places operations on the devices of this rank.

    A run that waits for longer than the timeout of the cluster ends with an error, unless the
    configuration has a timeout.
    """
    rank_config = tf.compat.v1.ConfigProto()
    if config is not None:
        rank_config.CopyFrom(config)
    rank_config.experimental.collective_group_leader = LEADER
    rank_config.operation_timeout_in_ms = rank_config.operation_timeout_in_ms or round(
        1000 * cluster.timeout_s
    )
    rank_config.device_filters[:] = [server_of(cluster)]
    return rank_config
