"""The ranks of a program in the graph-and-session form: collectives as operations of its graph."""

import itertools
from collections.abc import Sequence
from typing import Any, Final

import tensorflow as tf

from ampcore.distributed import Cluster, ReduceOp
from ampcore.distributed.connection import check_port

Tensor = Any

JOB: Final = "worker"
LEADER: Final = f"/job:{JOB}/replica:0/task:0"
"""The rank that hands out the parameters of groups."""

GROUP_KEY: Final = 1
"""All ranks are one group."""

_MERGE: Final = {"mean": "Add", "sum": "Add", "max": "Max"}
_FINAL: Final = {"mean": "Div", "sum": "Id", "max": "Id"}

_instance_keys = itertools.count(1)
"""Each collective of this process has its own: every rank builds the same graphs in order."""


class SessionReplicas:
    """Communication in a graph that a `compat.session` runs; every rank runs the same operations.

    Args:
        cluster: The ranks, and which of them this process is.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self._cluster.size

    @property
    def rank(self) -> int:
        """The number of this rank."""
        return self._cluster.rank

    def all_reduce(self, tensors: Sequence[Tensor], op: ReduceOp = "mean") -> list[Tensor]:
        """Combine each tensor with those of the other ranks; infinities and NaN propagate."""
        return [
            tf.raw_ops.CollectiveReduceV2(
                input=tensor, merge_op=_MERGE[op], final_op=_FINAL[op], **self._group()
            )
            for tensor in tensors
        ]

    def all_gather(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Concatenate each tensor with those of the other ranks along the first axis, by rank."""
        gathered = []
        for tensor in tensors:
            rows, *others = tensor.shape.as_list()
            all_rows = tf.raw_ops.CollectiveGatherV2(input=tensor, **self._group())
            all_rows.set_shape([None if rows is None else rows * self.size, *others])
            gathered.append(all_rows)
        return gathered

    def broadcast(self, tensors: Sequence[Tensor], root: int = 0) -> list[Tensor]:
        """The tensors of the rank `root`: a sum to which the others add zeros."""
        own = [tensor if self.rank == root else tf.zeros_like(tensor) for tensor in tensors]
        return self.all_reduce(own, "sum")

    def _group(self) -> dict[str, Any]:
        return {
            "group_size": self.size,
            "group_key": GROUP_KEY,
            "instance_key": next(_instance_keys),
            "ordering_token": [],
            "communication_hint": "RING",
            "timeout_seconds": self._cluster.timeout_s,
        }


def start_server(cluster: Cluster, config: Any) -> Any:
    """TensorFlow's server of this rank, through which its sessions reach the others.

    Args:
        cluster: The ranks, and which of them this process is.
        config: A tf.compat.v1.ConfigProto with options of devices, or None.

    Raises:
        AddressInUse: Another process uses the port of this rank.
    """
    check_port(cluster.addresses[cluster.rank])
    own = session_config(cluster, config)
    if tf.config.experimental.list_physical_devices("GPU"):
        own.gpu_options.visible_device_list = str(cluster.local_rank)
    return tf.compat.v1.train.Server(
        tf.compat.v1.train.ClusterSpec({JOB: list(cluster.addresses)}),
        job_name=JOB,
        task_index=cluster.rank,
        config=own,
    )


def session_config(cluster: Cluster, config: Any) -> Any:
    """A copy of a session's configuration, which places operations on the devices of this rank."""
    own = tf.compat.v1.ConfigProto()
    if config is not None:
        own.CopyFrom(config)
    own.experimental.collective_group_leader = LEADER
    own.device_filters[:] = [f"/job:{JOB}/task:{cluster.rank}"]
    return own
