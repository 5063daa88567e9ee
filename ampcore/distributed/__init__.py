"""Training on several devices: the communication between the replicas of a job.

Importing this package, `cluster` and `launcher` loads no TensorFlow.
"""

import sys

from ampcore.distributed import environment
from ampcore.distributed.cluster import Cluster
from ampcore.distributed.replicas import ReduceOp, Replicas, SingleReplica
from ampspec.errors import AddressInUse

__all__ = [
    "Cluster",
    "ReduceOp",
    "Replicas",
    "SingleReplica",
    "cluster_from_environment",
    "connect",
    "connect_from_environment",
    "replicas_of",
]

_connected: tuple[Cluster, Replicas] | None = None
"""What this process is connected with."""


def connect(cluster: Cluster, bucket_bytes: int | None = None) -> Replicas:
    """Connect this process with the other ranks of a job.

    It must come before the first tensor is made: TensorFlow cannot use earlier ones afterwards. A
    process can connect once.

    Args:
        cluster: The ranks, and which of them this process is.
        bucket_bytes: Up to which size tensors are reduced together; None: 4 MiB.

    Raises:
        RankDisconnected: Another rank did not connect within `cluster.timeout_s`.
        AddressInUse: Another process uses the port of this rank.
    """
    from ampcore.distributed import connection

    global _connected  # noqa: PLW0603 - a process can connect only once
    replicas = connection.connect(cluster, bucket_bytes)
    _connected = cluster, replicas
    return replicas


def replicas_of(cluster: Cluster) -> Replicas | None:
    """The replicas of this cluster, if this process has connected with them and not closed them."""
    if _connected is None or _connected[0] != cluster or _connected[1].is_closed:
        return None
    return _connected[1]


def connect_from_environment() -> Replicas:
    """The replicas of a program that `python -m ampcore launch` started.

    A program that was started in another way is a single replica. Later calls return the same
    replicas. If another process has taken the
    port of this rank, the program exits so that the launcher starts all ranks with other ports.

    Raises:
        RankDisconnected: Another rank did not connect in time.
        ValueError: AMPCORE_CLUSTER is not the JSON of a cluster.
    """
    cluster = cluster_from_environment()
    if cluster is None:
        return SingleReplica()
    if (earlier := replicas_of(cluster)) is not None:
        return earlier
    try:
        return connect(cluster)
    except AddressInUse as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(environment.ADDRESS_IN_USE) from error


def cluster_from_environment() -> Cluster | None:
    """The ranks that `python -m ampcore launch` has started; None without it.

    Raises:
        ValueError: AMPCORE_CLUSTER is not the JSON of a cluster.
    """
    return environment.cluster()
