"""TensorFlow's server of a rank in the graph-and-session form: its sessions reach the others."""

from typing import Any, Final

import tensorflow as tf

from ampcore.distributed import Cluster
from ampcore.distributed.connection import LEADER, check_port

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
