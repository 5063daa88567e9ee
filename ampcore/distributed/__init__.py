"""Training on several devices: the communication between the ranks of a job.

Importing this package, `cluster` and `launcher` loads no TensorFlow.
"""

import sys
from typing import TYPE_CHECKING

from ampcore.distributed import environment
from ampcore.distributed.cluster import Cluster
from ampcore.distributed.communicator import Communicator, ReduceOp, SingleRank
from ampcore.distributed.launchers.program_ranks import find_cluster
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
    """The connection with the other ranks of this program, however it was started.

    See `cluster_from_environment` for how they are found. A program that was started once is a
    single rank. Later calls return the same object. If another process has taken the port of this
    rank, the program exits so that `python -m ampcore launch` starts all ranks with other ports.

    Raises:
        RankDisconnected: Another rank did not connect in time.
        ValueError: The variables say that there are several ranks, but not how to connect them.
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
    """The ranks of this program, and which of them this process is; None: it was started once.

    They are found from, in this order: what `python -m ampcore launch` sets, TF_CONFIG, and the
    variables of torchrun, of mpiexec (Open MPI, MVAPICH2, MPICH and its relatives), of Flux, and of
    Slurm's srun. Those of `launch` and TF_CONFIG name all addresses. With the others the first call
    waits until every rank has called it, because they exchange their addresses. Each rank then
    takes its share of the cores, unless the launcher has given it some, and what ranks other than 0
    print is prefixed.
    AMPCORE_RANKS=1 says that each copy of the program is meant to train alone.

    Raises:
        ValueError: The variables say that there are several ranks, but not how to connect them; or
            they cannot be read. The message names them.
        RankDisconnected: Not all ranks came within five minutes.
    """
    return find_cluster()
