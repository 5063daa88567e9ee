"""The meeting of ranks that do not know each other: rank 0 collects their addresses.

Each rank holds a free port for TensorFlow's server until that uses it, and reports it with its own
address on the way to rank 0. Rank 0 answers with the addresses of all.
"""

import os
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, Final, Self

from ampcore.distributed.cluster import Cluster
from ampcore.distributed.control.greetings import Greetings, greet
from ampcore.distributed.control.messages import PeerConnection
from ampcore.distributed.launchers.meeting_point import LOOPBACK, MeetingPoint
from ampcore.distributed.launchers.placement import Placement
from ampspec.documents.text import join_names
from ampspec.errors import RankDisconnected

MEETING_S: Final = 300.0
"""How long the ranks wait for each other: a launcher may start some of them much later."""
CONNECT_S: Final = 2.0
WELCOME_S: Final = 20.0
"""How long rank 0 may take to say that it is rank 0; something else would say nothing."""
RETRY_S: Final = 0.1
MESSAGE_BYTES: Final = 2**20

_GPUS_OF_TASK: Final = "SLURM_GPUS_PER_TASK"


@dataclass(frozen=True)
class Meeting:
    """What a rank knows after the meeting.

    Args:
        cluster: The ranks, and which of them this process is.
        core_share: Which of how many equal shares of its cores the rank takes, because all ranks of
            its machine may run on the same ones; None: it takes them all.
        port: Keeps the rank's port from other processes until this one ends.
    """

    cluster: Cluster
    core_share: tuple[int, int] | None
    port: socket.socket


@dataclass(frozen=True)
class _Report:
    """What a rank tells rank 0.

    Args:
        host: Its own address on the way to rank 0.
        leader: Rank 0's address, as the rank sees it.
        port: Where it listens.
        machine: The same for all ranks of one machine.
        local_rank: Its number there, as the launcher says; None: not known.
        cores: What it may run on.
        gpus: The GPUs that it may use, as the launcher says; None: all.
        has_own_gpu: Whether the launcher gives each rank a GPU of its own.
    """

    host: str
    leader: str
    port: int
    machine: str
    local_rank: int | None
    cores: list[int]
    gpus: str | None
    has_own_gpu: bool

    @classmethod
    def of_this_process(cls, placement: Placement, host: str, leader: str, port: int) -> Self:
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES")
        cores = sorted(os.sched_getaffinity(0))
        machine, has_own_gpu = socket.gethostname(), _GPUS_OF_TASK in os.environ
        return cls(host, leader, port, machine, placement.local_rank, cores, gpus, has_own_gpu)

    @classmethod
    def read(cls, message: Mapping[str, Any] | None) -> Self:
        if message is None:
            raise ValueError("it has closed the connection")
        return cls(**message)


def meet(placement: Placement, point: MeetingPoint, timeout_s: float) -> Meeting:
    """Exchange the addresses of all ranks.

    Args:
        placement: Which rank this is.
        point: Where rank 0 listens.
        timeout_s: That of the cluster.

    Raises:
        RankDisconnected: Not all ranks came in time.
    """
    holder = hold_port()
    port = holder.getsockname()[1]
    try:
        role = _lead if placement.rank == 0 else _follow
        answer = role(placement, point, port)
    except BaseException:
        holder.close()
        raise
    addresses, place = tuple(answer["addresses"]), answer["places"][placement.rank]
    cluster = Cluster(addresses, placement.rank, place["local_rank"], timeout_s)
    share = place["core_share"]
    return Meeting(cluster, share and tuple(share), holder)


def hold_port() -> socket.socket:
    """A socket that keeps a free port for a server of this process.

    It never listens, and allows the port to be used once more: a server that allows it, too, such
    as TensorFlow's, can listen there, while no other process is given the port.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    holder.bind(("", 0))
    return holder


def _lead(placement: Placement, point: MeetingPoint, port: int) -> dict[str, Any]:
    """Collect what the other ranks report, and send each of them the answer."""
    with ExitStack() as stack:
        listener = stack.enter_context(_listen(placement, point))
        greetings = Greetings(
            listener, placement.size, point.token, MEETING_S, on_accepted=_welcome
        )
        connections = greetings.wait(MEETING_S)
        for connection in connections.values():
            stack.callback(connection.release)
        if missing := greetings.missing():
            raise _did_not_come(placement, point, list(missing))
        reports = {rank: _read_report(rank, peer) for rank, peer in connections.items()}
        answer = _answer(placement, reports, port)
        for connection in connections.values():
            connection.send(answer)
    return answer


def _welcome(connection: PeerConnection) -> None:
    """Tell a rank that it has found rank 0, and not something else that listens there."""
    with suppress(OSError):
        connection.send({"welcome": True})


def _listen(placement: Placement, point: MeetingPoint) -> socket.socket:
    for port in point.ports:
        with suppress(OSError):
            if placement.is_one_machine:
                return socket.create_server((LOOPBACK, port))
            if socket.has_dualstack_ipv6():
                return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
            return socket.create_server(("", port))
    raise RankDisconnected(
        f"Rank 0 cannot listen on any port from {point.ports[0]} to {point.ports[-1]}, where the "
        f"other {placement.size - 1} ranks look for it. Set MASTER_PORT to a free one on all ranks."
    )


def _read_report(rank: int, connection: PeerConnection) -> _Report:
    try:
        return _Report.read(connection.receive(MESSAGE_BYTES))
    except (OSError, ValueError, TypeError) as error:
        text = f"Rank {rank} came to the meeting of the ranks, and was lost there: {error}."
        raise RankDisconnected(text, (rank,)) from error


def _answer(placement: Placement, reports: Mapping[int, _Report], port: int) -> dict[str, Any]:
    """The addresses of all ranks, and what each of them takes of its machine.

    A rank that reached rank 0 over the loopback interface is on its machine: if others are not, it
    gets the address at which those see rank 0.
    """
    remote = [report for report in reports.values() if not _is_loopback(report.host)]
    leader = remote[0].leader if remote else LOOPBACK
    of_leader = _Report.of_this_process(placement, leader, leader, port)
    ranks = [of_leader, *(reports[rank] for rank in sorted(reports))]
    return {
        "addresses": [_address(report, leader) for report in ranks],
        "places": [_place(rank, ranks) for rank in range(len(ranks))],
    }


def _address(report: _Report, leader: str) -> str:
    host = leader if _is_loopback(report.host) else report.host
    return f"[{host}]:{report.port}" if ":" in host else f"{host}:{report.port}"


def _place(rank: int, reports: Sequence[_Report]) -> dict[str, Any]:
    """The number of the rank's device among those that it sees, and its share of the cores."""
    report = reports[rank]
    local_ranks = [i for i, peer in enumerate(reports) if peer.machine == report.machine]
    number = local_ranks.index(rank)
    local_rank = number if report.local_rank is None else report.local_rank
    gpus = {reports[i].gpus for i in local_ranks}
    if report.has_own_gpu or (len(gpus) == len(local_ranks) > 1 and None not in gpus):
        local_rank = 0  # it sees only its own
    shares_cores = len(local_ranks) > 1 and all(
        reports[i].cores == report.cores for i in local_ranks
    )
    return {
        "local_rank": local_rank,
        "core_share": [number, len(local_ranks)] if shares_cores else None,
    }


def _follow(placement: Placement, point: MeetingPoint, port: int) -> dict[str, Any]:
    """Look for rank 0 until it answers."""
    deadline = time.monotonic() + MEETING_S
    while time.monotonic() < deadline:
        for candidate in point.ports:
            with suppress(OSError, ValueError):
                answer = _ask(placement, point, candidate, port, deadline)
                if answer is not None:
                    return answer
        time.sleep(RETRY_S)
    raise _did_not_come(placement, point, [0])


def _ask(
    placement: Placement, point: MeetingPoint, candidate: int, port: int, deadline: float
) -> dict[str, Any] | None:
    """Rank 0's answer; None if something else listens at the port."""
    with socket.create_connection((point.host, candidate), CONNECT_S) as connected:
        peer = PeerConnection(connected, WELCOME_S)
        greet(peer, placement.rank, point.token)
        if peer.receive(MESSAGE_BYTES) is None:
            return None
        connected.settimeout(max(deadline - time.monotonic(), CONNECT_S))
        host, leader = _host_of(connected.getsockname()), _host_of(connected.getpeername())
        peer.send(vars(_Report.of_this_process(placement, host, leader, port)))
        return peer.receive(MESSAGE_BYTES)


def _did_not_come(
    placement: Placement, point: MeetingPoint, missing: Sequence[int]
) -> RankDisconnected:
    names = join_names([f"rank {rank}" for rank in missing])
    where = f"{point.host}, ports {point.ports[0]} to {point.ports[-1]}"
    return RankDisconnected(
        f"{placement.launcher} has started {placement.size} ranks. Rank {placement.rank} has "
        f"waited {MEETING_S:g} s at {where}, and {names} did not come.",
        tuple(missing),
    )


def _is_loopback(host: str) -> bool:
    return host.startswith("127.") or host == "::1"


def _host_of(name: tuple[Any, ...]) -> str:
    """The host of a socket's address, of IPv4 also where the socket is for both versions."""
    return str(name[0]).removeprefix("::ffff:").partition("%")[0]
