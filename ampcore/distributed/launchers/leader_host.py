"""How rank 0 tells the others the address of its machine, where no variable says it.

Either by a file in a folder that all ranks share, or by MPI itself, with mpi4py.
"""

import socket
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ampcore.distributed.launchers.placement import Placement
from ampspec.errors import RankDisconnected

MEETING_FOLDER: Final = "AMPCORE_MEETING_FOLDER"
"""A folder that the machines of all ranks share."""
FILE_S: Final = 300.0
"""How long the others wait for rank 0's file."""
RETRY_S: Final = 0.2

_ANY_ADDRESS: Final = ("192.0.2.1", 9)
"""Of the addresses for documentation: a datagram socket that is connected to it sends nothing."""


def host_from_folder(rank: int, file: Path) -> str:
    """Rank 0 writes the address of its machine to the file, the others read it.

    Raises:
        RankDisconnected: There was no file in time.
        OSError: The file cannot be written.
    """
    if rank == 0:
        host = own_host()
        part = file.with_suffix(".part")
        part.write_text(host)
        part.rename(file)  # the others see the whole of it, or nothing
        return host
    deadline = time.monotonic() + FILE_S
    while time.monotonic() < deadline:
        with suppress(OSError):
            return file.read_text()
        time.sleep(RETRY_S)
    raise RankDisconnected(
        f"Rank 0 has not written {file} within {FILE_S:g} s. {MEETING_FOLDER} must be a folder "
        "that all ranks share.",
        (0,),
    )


def host_from_mpi(placement: Placement) -> str | None:
    """The address of rank 0's machine, sent by MPI; None without mpi4py.

    Raises:
        ValueError: MPI sees other ranks than the variables of the launcher.
    """
    if find_spec("mpi4py") is None:
        return None
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if (world.Get_rank(), world.Get_size()) != (placement.rank, placement.size):
        raise ValueError(
            f"mpi4py: expected rank {placement.rank} of {placement.size}, as "
            f"{placement.size_variable} says; received rank {world.Get_rank()} of "
            f"{world.Get_size()}. Its MPI library is probably another one than that of mpiexec."
        )
    return str(world.bcast(own_host(), root=0))


def own_host() -> str:
    """The address of this machine's interface to the network, or its name without one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(_ANY_ADDRESS)
        return str(probe.getsockname()[0])
    return socket.gethostname()
