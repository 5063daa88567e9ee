"""Where the ranks of a launcher meet to exchange their addresses: rank 0 listens there.

The host is what the launcher, or the batch system around it, says of rank 0. The port follows from
what is the same for all ranks of one start and for no other, such as the numbers of Slurm's job and
step, so that two programs on one machine do not meet.
"""

import hashlib
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ampcore.distributed.launchers.leader_host import (
    MEETING_FOLDER,
    host_from_folder,
    host_from_mpi,
)
from ampcore.distributed.launchers.placement import SLURM, Placement, alone_hint

LOOPBACK: Final = "127.0.0.1"
FIRST_PORT: Final = 20_000
PORT_COUNT: Final = 10_000
"""Below the ports that Linux gives to outgoing connections, from 32768."""
TRIED_PORTS: Final = 16
"""Another process may listen on the first port."""
LARGEST_PORT: Final = 65_535
TOKEN_BYTES: Final = 16
SCONTROL_S: Final = 30.0

_PROCESS_MANAGERS: Final = ("hydra_pmi_proxy", "mpiexec", "mpirun", "prterun", "orted", "prted")


@dataclass(frozen=True)
class MeetingPoint:
    """Where rank 0 listens.

    Args:
        host: The name or address of rank 0's machine.
        ports: The ports that are tried in turn.
        token: What the ranks of this start know; it keeps those of other starts apart, and is no
            secret.
    """

    host: str
    ports: Sequence[int]
    token: bytes


def find_meeting_point(placement: Placement, environ: Mapping[str, str]) -> MeetingPoint:
    """Where the ranks of this start meet.

    Raises:
        ValueError: The variables do not say; the message names what would.
    """
    port = environ.get("MASTER_PORT")
    start = _name_of_start(placement, environ)
    digest = hashlib.sha256(f"{start} of {placement.size}".encode()).digest()
    if port is None:
        first = FIRST_PORT + int.from_bytes(digest[-4:], "big") % (PORT_COUNT - TRIED_PORTS)
    else:
        # There, torchrun's own store listens.
        first = _port(port) + (environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True")
    ports = range(first, min(first + TRIED_PORTS, LARGEST_PORT + 1))
    token = digest[:TOKEN_BYTES]
    return MeetingPoint(_host(placement, token.hex(), environ), ports, token)


def _port(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if not 0 < number <= LARGEST_PORT:
        raise ValueError(f"MASTER_PORT: expected a port; received {text!r}.")
    return number


def _host(placement: Placement, start: str, environ: Mapping[str, str]) -> str:
    """The machine of rank 0."""
    if address := environ.get("MASTER_ADDR"):
        return address
    if placement.is_one_machine:
        return LOOPBACK
    # mpiexec starts its daemons by a step on the other nodes: its ranks are those of the job.
    list_name = "SLURM_STEP_NODELIST" if placement.launcher == SLURM else "SLURM_JOB_NODELIST"
    if nodes := environ.get(list_name):
        return _host_of_slurm(placement, nodes, environ)
    if (file := environ.get("PBS_NODEFILE")) and (lines := _lines(Path(file))):
        return lines[0]
    if folder := environ.get(MEETING_FOLDER):
        return host_from_folder(placement.rank, Path(folder) / f"ampcore-{start}")
    if (host := host_from_mpi(placement)) is not None:
        return host
    raise ValueError(
        f"{placement.size_variable} is {placement.size}: {placement.launcher} has started "
        f"{placement.size} ranks on several machines, but nothing says on which one rank 0 is. "
        "Set MASTER_ADDR to the name of that machine on all ranks, or "
        f"{MEETING_FOLDER} to a folder that all of them share, or install mpi4py; {alone_hint()}."
    )


def _host_of_slurm(placement: Placement, nodes: str, environ: Mapping[str, str]) -> str:
    """The first node of the list, on which rank 0 is unless tasks are distributed by hand."""
    node = first_node(nodes)
    if placement.launcher == SLURM and placement.rank == 0 and environ.get("SLURM_NODEID") != "0":
        raise ValueError(
            f"Rank 0 runs on {environ.get('SLURMD_NODENAME', 'another node')}, and the other ranks "
            f"look for it on {node}, the first node of the list {nodes}. Set MASTER_ADDR to the "
            "name of its node on all ranks."
        )
    return _address_of_slurm_node(node)


def first_node(nodes: str) -> str:
    """The first name in a list of nodes as Slurm writes it: `n3` of `n[3-5,9],m1`."""
    inside = 0
    for end, char in enumerate(nodes):  # noqa: B007 - the loop looks for the end
        inside += (char == "[") - (char == "]")
        if char == "," and not inside:
            break
    else:
        end = len(nodes)
    return re.sub(r"\[(\w+)[^]]*\]", r"\1", nodes[:end])


def _address_of_slurm_node(node: str) -> str:
    """The node's name where it can be looked up, otherwise the address that Slurm uses."""
    try:
        socket.getaddrinfo(node, None)
    except OSError:
        pass
    else:
        return node
    if (scontrol := shutil.which("scontrol")) is None:
        return node
    shown = subprocess.run(
        [scontrol, "show", "node", "--oneliner", node],
        capture_output=True, text=True, check=False, timeout=SCONTROL_S,
    )  # fmt: skip
    address = re.search(r"\bNodeAddr=(\S+)", shown.stdout)
    return address[1] if address else node


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:  # only the first machine of a PBS job has it
        return []


def _name_of_start(placement: Placement, environ: Mapping[str, str]) -> str:
    """What the ranks of this start have in common, and no other start has."""
    for names in (
        ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_PORT"),
        ("PMIX_NAMESPACE",),
        ("OMPI_MCA_ess_base_jobid",),
        ("PALS_APID",),
        ("FLUX_JOB_ID",),
        ("SLURM_JOB_ID", "SLURM_STEP_ID"),
        ("MASTER_PORT",),  # not MASTER_ADDR: PyTorchJob sets it to localhost for rank 0
        ("PMI_PORT",),
    ):
        if names[0] in environ:
            return " ".join(f"{name}={environ.get(name, '')}" for name in names)
    if placement.is_one_machine:
        return f"process {_process_manager()}"
    return f"PBS_JOBID={environ.get('PBS_JOBID', '')} {os.getuid()}"


def _process_manager() -> str:
    """The process, with its time of start, that has started the ranks of this machine."""
    ancestors = list(_ancestors())
    managers = [pid for pid, name in ancestors if name.startswith(_PROCESS_MANAGERS)]
    pid = managers[0] if managers else os.getppid()
    return f"{pid} {_stat(pid)[-1]}"


def _ancestors() -> Iterator[tuple[int, str]]:
    pid = os.getppid()
    while pid > 1:
        name, parent, _ = _stat(pid)
        yield pid, name
        pid = int(parent)


def _stat(pid: int) -> tuple[str, str, str]:
    """A process's name, the id of its parent, and when it started."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # no Linux, or it has just ended
        return "", "0", ""
    name, _, numbers = text.partition("(")[2].rpartition(")")
    fields = numbers.split()
    return name, fields[1], fields[19]
