"""Connects the ranks of a job: TensorFlow's collectives, and the control channel.

One process per rank; each has one device and plain variables, and no strategy scope. The collective
implementation is named, RING on CPUs and NCCL on GPUs: with AUTO, gradients differed
(tensorflow#120987).
"""

import secrets
import socket
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

import tensorflow as tf
from absl import logging
from tensorflow.core.protobuf import tensorflow_server_pb2
from tensorflow.python.eager import context

from ampcore.distributed.buckets import DEFAULT_BUCKET_BYTES
from ampcore.distributed.cluster import Cluster
from ampcore.distributed.collectives import CollectiveCommunicator, Collectives, Hint
from ampcore.distributed.control.channel import ControlChannel
from ampcore.distributed.control.exchange_watch import ExchangeWatch
from ampcore.distributed.control.greetings import Greetings, greet
from ampcore.distributed.control.loopback import close_to_other_machines
from ampcore.distributed.control.messages import PeerConnection
from ampcore.distributed.control.process_activity import ProcessActivity
from ampcore.distributed.malloc import keep_freed_memory
from ampspec.documents.text import join_names
from ampspec.errors import AddressInUse, RankDisconnected, UnsupportedDevice

LEADER: Final = "/job:worker/replica:0/task:0"
"""The rank that hands out the parameters of groups."""

TOKEN_BYTES: Final = 16
LOOPBACK_HOSTS: Final = ("127.0.0.1", "::1", "localhost")
PROBE_S: Final = 1.0
"""How long a rank that did not connect is looked for, to name it."""


def connect(cluster: Cluster, bucket_bytes: int | None = None) -> CollectiveCommunicator:
    """See `ampcore.distributed.connect`."""
    keep_freed_memory()
    accelerators = use_own_accelerator(cluster.local_rank)
    _start_server(cluster)
    hint: Hint = "NCCL" if accelerators else "RING"
    collectives = Collectives(cluster.rank, cluster.size, hint, cluster.timeout_s)
    try:
        connections = _control_connections(cluster, collectives)
    except (tf.errors.OpError, OSError) as error:
        raise _not_connected(cluster, error) from error
    control = ControlChannel(
        cluster.rank,
        cluster.size,
        connections,
        timeout_s=cluster.timeout_s,
        silence_limit_s=cluster.silence_limit_s,
        on_failure=_abort_collectives,
        idle_s=ProcessActivity(threading.get_native_id()).idle_s,
    )
    collectives.timeout_s = 0.0  # from here on the watch has the timeout
    watch = ExchangeWatch(cluster.timeout_s, control.report_timeout)
    control.is_exchanging = watch.is_exchanging
    return CollectiveCommunicator(collectives, control, watch, bucket_bytes or DEFAULT_BUCKET_BYTES)


def use_own_accelerator(local_rank: int) -> bool:
    """Hide the GPUs of the other ranks of this machine; whether this rank has one."""
    visible = tf.config.get_visible_devices("GPU")
    if not visible:
        return False
    if local_rank >= len(visible):
        raise UnsupportedDevice(
            f"local_rank: expected the number of one of {len(visible)} GPUs, from 0; received "
            f"{local_rank}."
        )
    tf.config.set_visible_devices(visible[local_rank], "GPU")
    return True


def _start_server(cluster: Cluster) -> None:
    """Start TensorFlow's server of this rank, without waiting for the others."""
    address = cluster.addresses[cluster.rank]
    document = tensorflow_server_pb2.ServerDef(
        cluster=tf.train.ClusterSpec({"worker": list(cluster.addresses)}).as_cluster_def(),
        job_name="worker",
        task_index=cluster.rank,
        protocol="grpc",
        port=int(address.rpartition(":")[2]),
    )
    # Not `configure_collective_ops`, which a process that was warmed up can no longer call.
    document.default_session_config.experimental.collective_group_leader = LEADER
    check_port(address)
    try:
        with _without_warning():
            context.context().ensure_initialized()
            context.context().enable_collective_ops(document)
    except (tf.errors.OpError, RuntimeError) as error:
        if "start gRPC server" in str(error) or "address" in str(error).lower():
            raise AddressInUse(
                f"Rank {cluster.rank} cannot listen on {address}: {error}"
            ) from error
        raise
    if all(_host(address) in LOOPBACK_HOSTS for address in cluster.addresses):
        close_to_other_machines(document.port)


@contextmanager
def _without_warning() -> Iterator[None]:
    """Without TensorFlow's warning that earlier tensors can no longer be used."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


def check_port(address: str) -> None:
    """Raise AddressInUse where another process listens: TensorFlow would share the port."""
    port = int(address.rpartition(":")[2])
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            raise AddressInUse(f"Cannot listen on {address}: {error.strerror}.") from error


def _control_connections(cluster: Cluster, collectives: Collectives) -> dict[int, PeerConnection]:
    """The connections of the control channel; the first communication between the ranks."""
    if cluster.rank == 0:
        with _listen(cluster) as listener:
            token = secrets.token_bytes(TOKEN_BYTES)
            _announce(collectives, listener.getsockname()[1], token)
            return _accept(cluster, listener, token)
    port, token = _announcement(collectives)
    host = _host(cluster.addresses[0])
    connected = socket.create_connection((host, port), cluster.timeout_s)
    connection = PeerConnection(connected, cluster.silence_limit_s)
    greet(connection, cluster.rank, token)
    return {0: connection}


def _listen(cluster: Cluster) -> socket.socket:
    try:
        return socket.create_server(
            (_interface(cluster), cluster.control_port), family=_family(cluster)
        )
    except OSError as error:
        if cluster.control_port == 0:
            raise
        text = f"Cannot listen on the control port {cluster.control_port}: {error.strerror}."
        raise AddressInUse(text) from error


def _interface(cluster: Cluster) -> str:
    """The address to listen on: all interfaces, unless all ranks are on this machine."""
    host = _host(cluster.addresses[0])
    return host if host in LOOPBACK_HOSTS else ""


def _family(cluster: Cluster) -> int:
    return socket.AF_INET6 if cluster.addresses[0].startswith("[") else socket.AF_INET


def _host(address: str) -> str:
    return address.rpartition(":")[0].removeprefix("[").removesuffix("]")


def _announce(collectives: Collectives, port: int, token: bytes) -> None:
    """Tell the other ranks the port of the control channel and the token that opens it."""
    numbers = tf.constant([port, *token], tf.int32)
    collectives.broadcast([numbers], root=0)


def _announcement(collectives: Collectives) -> tuple[int, bytes]:
    [announcement] = collectives.broadcast([tf.zeros(1 + TOKEN_BYTES, tf.int32)], root=0)
    port, *token = announcement.numpy().tolist()
    return port, bytes(token)


def _accept(cluster: Cluster, listener: socket.socket, token: bytes) -> dict[int, PeerConnection]:
    """Wait for every other rank."""
    greetings = Greetings(listener, cluster.size, token, cluster.silence_limit_s)
    connections = greetings.wait(cluster.timeout_s)
    if missing := greetings.missing():
        raise _lost(cluster, missing)
    return connections


def _not_connected(cluster: Cluster, error: Exception) -> RankDisconnected:
    """The error of ranks that did not connect, which are named if nothing listens for them."""
    peers = [rank for rank in range(cluster.size) if rank != cluster.rank]
    missing = [rank for rank in peers if not _listens(cluster.addresses[rank])]
    if missing:
        return _lost(cluster, missing)
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return RankDisconnected(f"The ranks did not connect within {cluster.timeout_s:g} s: {first}")


def _lost(cluster: Cluster, missing: Collection[int]) -> RankDisconnected:
    names = join_names([f"rank {rank} ({cluster.addresses[rank]})" for rank in missing])
    text = f"Did not connect within {cluster.timeout_s:g} s: {names}."
    return RankDisconnected(text, tuple(missing))


def _listens(address: str) -> bool:
    port = int(address.rpartition(":")[2])
    try:
        with socket.create_connection((_host(address), port), PROBE_S):
            return True
    except OSError:
        return False


def _abort_collectives(message: str) -> None:
    """End the collectives in progress, and refuse all later ones."""
    context.context().abort_collective_ops(tf.errors.UNAVAILABLE, message)
