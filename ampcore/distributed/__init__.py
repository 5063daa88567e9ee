"""Training on several devices: the communication between the ranks of a job.

Importing this package, `cluster` and `launcher` loads no TensorFlow.
"""

import sys
from typing import TYPE_CHECKING

from ampcore.distributed import environment
from ampcore.distributed.cluster import Cluster
from ampcore.distributed.communicator import Communicator, ReduceOp, SingleRank
from ampspec.errors import AddressInUse
from ampspec.old_names import old_attributes

__all__ = [
    "Cluster",
    "Communicator",
    "ReduceOp",
    "SingleRank",
    "cluster_from_environment",
    "communicator_of",
    "connect",
    "connect_from_environment",
]

if not TYPE_CHECKING:
    __getattr__ = old_attributes(
        __name__,
        {
            "Replicas": "Communicator",
            "SingleReplica": "SingleRank",
            "replicas_of": "communicator_of",
        },
    )

_connected: tuple[Cluster, Communicator] | None = None
"""What this process is connected with."""


def connect(cluster: Cluster, bucket_bytes: int | None = None) -> Communicator:
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
    communicator = connection.connect(cluster, bucket_bytes)
    _connected = cluster, communicator
    return communicator


def communicator_of(cluster: Cluster) -> Communicator | None:
    """The connection with the ranks of this cluster, if this process has one and it is open."""
    if _connected is None or _connected[0] != cluster or _connected[1].is_closed:
        return None
    return _connected[1]


def connect_from_environment() -> Communicator:
    """The connection with the ranks of a program that `python -m ampcore launch` started.

    A program that was started in another way is a single rank. Later calls return the same object.
    If another process has taken the port of this rank, the program exits so that the launcher
    starts all ranks with other ports.

    Raises:
        RankDisconnected: Another rank did not connect in time.
        ValueError: AMPCORE_CLUSTER is not the JSON of a cluster.
    """
    cluster = cluster_from_environment()
    if cluster is None:
        return SingleRank()
    if (earlier := communicator_of(cluster)) is not None:
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
