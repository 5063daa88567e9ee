"""Training on several devices: the communication between the replicas of a job.

Importing this package, `cluster` and `launcher` loads no TensorFlow.
"""

from ampcore.distributed.cluster import Cluster
from ampcore.distributed.replicas import ReduceOp, Replicas, SingleReplica

__all__ = [
    "Cluster",
    "ReduceOp",
    "Replicas",
    "SingleReplica",
    "connect",
    "connect_from_environment",
]


def connect(cluster: Cluster) -> Replicas:
    """Connect this process with the other ranks of a job.

    It must come before the first tensor is made: TensorFlow cannot use earlier ones afterwards. A
    process can connect once.

    Args:
        cluster: The ranks, and which of them this process is.

    Raises:
        RankLost: Another rank did not connect within `cluster.timeout_s`.
        AddressInUse: Another process uses the port of this rank.
    """
    from ampcore.distributed import connection

    return connection.connect(cluster)


def connect_from_environment() -> Replicas:
    """The replicas of a program that `python -m ampcore launch` started.

    A program that was started in another way is a single replica.

    Raises:
        RankLost: Another rank did not connect in time.
        ValueError: AMPCORE_CLUSTER is not the JSON of a cluster.
    """
    from ampcore.distributed import environment

    cluster = environment.cluster()
    return SingleReplica() if cluster is None else connect(cluster)
