"""Ranks that find each other: processes with the variables of launchers, set by hand."""

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from ampcore.distributed.launchers import meeting
from ampcore.distributed.launchers.meeting_point import MeetingPoint
from ampcore.distributed.launchers.placement import Placement
from ampspec.errors import RankDisconnected
from tests.machines import connect, created_machine
from tests.processes import free_ports
from tests.waiting import DEADLINE_S

ROOT = Path(__file__).parents[4]
PROGRAM = """
import json, os, sys
from ampcore.distributed import cluster_from_environment
cluster = cluster_from_environment()
assert cluster_from_environment() == cluster
cores = sorted(os.sched_getaffinity(0))
print(json.dumps(cluster and {**cluster.to_json(), "cores": cores}))
"""


def outcomes(environs, prefixes=None):
    """What each rank prints; its variables are those of this process and its own."""
    with ExitStack() as stack:
        processes = []
        for rank, environ in enumerate(environs):
            prefix = prefixes[rank] if prefixes else []
            process = subprocess.Popen(
                [*prefix, sys.executable, "-c", PROGRAM],
                cwd=ROOT,
                env={**os.environ, **environ},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            processes.append(stack.enter_context(process))
            stack.callback(process.kill)
        return [process.communicate(timeout=DEADLINE_S) for process in processes]


def clusters(environs, prefixes=None):
    """The clusters of the ranks, and the cores that each has kept."""
    printed = [stdout for stdout, _ in outcomes(environs, prefixes)]
    for rank, line in enumerate(printed):
        assert line.startswith(f"rank {rank}: " if rank else "{"), printed
    documents = [json.loads(line[line.index("{") :]) for line in printed]
    assert [document["rank"] for document in documents] == list(range(len(documents)))
    return documents


def torchrun(size, host, port):
    """The variables of each rank."""
    return [
        {"WORLD_SIZE": str(size), "RANK": str(rank), "MASTER_ADDR": host, "MASTER_PORT": str(port)}
        for rank in range(size)
    ]


def test_ranks_with_the_variables_of_torchrun_meet():
    documents = clusters(torchrun(3, "localhost", free_ports(16).start))
    addresses = documents[0]["addresses"]
    assert all(document["addresses"] == addresses for document in documents)
    assert len(set(addresses)) == 3
    assert all(address.startswith("127.0.0.1:") for address in addresses)
    assert [document["local_rank"] for document in documents] == [0, 1, 2]


def test_ranks_of_one_machine_share_its_cores():
    usable = sorted(os.sched_getaffinity(0))
    documents = clusters(torchrun(2, "127.0.0.1", free_ports(16).start))
    cores = [document["cores"] for document in documents]
    if len(usable) > 1:
        assert not set(cores[0]) & set(cores[1])
    assert set(cores[0]) | set(cores[1]) <= set(usable)


def test_a_port_that_something_else_listens_on_is_passed_over():
    """As torchrun itself does on MASTER_PORT: it accepts, and never says who it is."""
    ports = free_ports(16)
    with socket.create_server(("127.0.0.1", ports.start)) as stranger:
        stranger.settimeout(DEADLINE_S)
        documents = clusters(torchrun(2, "127.0.0.1", ports.start))
    assert len(documents) == 2


def test_two_starts_at_the_same_time_do_not_mix():
    """Both have the same MASTER_PORT; the numbers of Slurm's steps differ."""
    port = free_ports(16).start
    step = {"SLURM_JOB_ID": "7", "SLURM_STEP_NUM_TASKS": "2", "MASTER_ADDR": "127.0.0.1"}
    environs = [
        {**step, "SLURM_STEP_ID": str(start), "SLURM_PROCID": str(rank), "MASTER_PORT": str(port)}
        for rank in range(2)
        for start in range(2)
    ]
    printed = [json.loads(stdout[stdout.index("{") :]) for stdout, _ in outcomes(environs)]
    leaders, followers = printed[:2], printed[2:]
    for leader, follower in zip(leaders, followers, strict=True):
        assert leader["addresses"] == follower["addresses"]
    assert leaders[0]["addresses"] != leaders[1]["addresses"]


def test_launchers_that_bind_gpus_show_each_rank_its_own():
    environs = torchrun(2, "127.0.0.1", free_ports(16).start)
    for rank, environ in enumerate(environs):
        environ |= {"LOCAL_RANK": str(rank), "CUDA_VISIBLE_DEVICES": str(rank)}
    assert [document["local_rank"] for document in clusters(environs)] == [0, 0]
    environs = torchrun(2, "127.0.0.1", free_ports(16).start)
    for rank, environ in enumerate(environs):
        environ |= {"LOCAL_RANK": str(rank), "CUDA_VISIBLE_DEVICES": "0,1"}
    assert [document["local_rank"] for document in clusters(environs)] == [0, 1]


@pytest.mark.needs("network namespaces")
def test_ranks_on_two_machines_get_addresses_that_the_others_reach():
    """The ranks of the first machine know it as localhost, as in a PyTorchJob of Kubeflow."""
    hosts = ["10.99.0.1", "10.99.0.2"]
    names = [f"m{os.getpid()}-{name}" for name in "ab"]
    with created_machine(names[0]) as first, created_machine(names[1]) as second:
        connect(first, hosts[0], second, hosts[1])
        environs = torchrun(3, hosts[0], 29_500)
        for environ in environs[:2]:
            environ["MASTER_ADDR"] = "localhost"
        prefixes = [machine.command() for machine in (first, first, second)]
        documents = clusters(environs, prefixes)
    addresses = documents[0]["addresses"]
    assert [address.rpartition(":")[0] for address in addresses] == [hosts[0], *hosts]


def test_a_program_that_was_started_once_does_not_wait():
    [(stdout, _)] = outcomes([{"SLURM_NTASKS": "2", "SLURM_PROCID": "0"}])
    assert json.loads(stdout) is None


def test_copies_that_are_meant_do_not_wait():
    environs = [{**environ, "AMPCORE_RANKS": "1"} for environ in torchrun(2, "127.0.0.1", 1)]
    assert [json.loads(stdout) for stdout, _ in outcomes(environs)] == [None, None]


def test_the_ranks_of_launch_are_ranks_even_if_copies_are_meant_elsewhere():
    """AMPCORE_RANKS=1 in the shell, or around `launch` under mpiexec, is about other launchers."""
    launched = {"addresses": ["127.0.0.1:1", "127.0.0.1:2"], "rank": 0}
    [(stdout, _)] = outcomes([{"AMPCORE_RANKS": "1", "AMPCORE_CLUSTER": json.dumps(launched)}])
    assert json.loads(stdout)["addresses"] == launched["addresses"]


def test_a_rank_that_does_not_come_is_named(monkeypatch):
    monkeypatch.setattr(meeting, "MEETING_S", 0.5)
    ports = free_ports(2)
    point = MeetingPoint("127.0.0.1", ports, b"token")
    for rank, missing in ((0, "rank 1 did not come"), (1, "rank 0 did not come")):
        placement = Placement("Open MPI", "OMPI_COMM_WORLD_SIZE", rank, 2, rank, 2)
        with pytest.raises(RankDisconnected, match=missing) as caught:
            meeting.meet(placement, point, 5.0)
        assert "Open MPI has started 2 ranks" in str(caught.value)


def test_a_held_port_can_be_used_once_more_and_is_given_to_nobody_else():
    with meeting.hold_port() as holder:
        port = holder.getsockname()[1]
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            server.bind(("", port))
            server.listen()
            with socket.create_connection(("127.0.0.1", port), 5.0):
                server.accept()[0].close()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("", port))
