"""Which rank of a program this process is, as the variables of its launcher say.

The names are those of the launchers' documentation: torchrun's environment variables, Open MPI's
`OMPI_COMM_WORLD_*`, the process manager interface of MPICH, Intel MPI and Cray, Flux, and the
output environment variables of Slurm's srun.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ampcore.distributed.cluster import MAX_RANKS

SLURM: Final = "Slurm"
RANKS: Final = "AMPCORE_RANKS"
"""`1`: each copy of a program that was started several times is meant to train alone."""


@dataclass(frozen=True)
class Placement:
    """The place of this process among the ranks of a program.

    Args:
        launcher: What has started the ranks, in words.
        size_variable: The variable that has their number.
        rank: The number of this rank, from 0.
        size: The number of ranks.
        local_rank: The number of this rank among those of its machine, from 0; None: not known.
        local_size: The number of ranks on its machine; None: not known.
    """

    launcher: str
    size_variable: str
    rank: int
    size: int
    local_rank: int | None = None
    local_size: int | None = None

    @property
    def is_one_machine(self) -> bool:
        """Whether all ranks are known to be on this machine."""
        return self.local_size == self.size


@dataclass(frozen=True)
class _Variables:
    """The names of a launcher's variables; of several names the first one that is set counts."""

    launcher: str
    size: str
    rank: str
    local_rank: tuple[str, ...] = ()
    local_size: tuple[str, ...] = ()


_LAUNCHERS: Final = (
    _Variables("torchrun", "WORLD_SIZE", "RANK", ("LOCAL_RANK",), ("LOCAL_WORLD_SIZE",)),
    _Variables(
        "Open MPI",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_RANK",
        ("OMPI_COMM_WORLD_LOCAL_RANK",),
        ("OMPI_COMM_WORLD_LOCAL_SIZE",),
    ),
    _Variables(
        "MVAPICH2",
        "MV2_COMM_WORLD_SIZE",
        "MV2_COMM_WORLD_RANK",
        ("MV2_COMM_WORLD_LOCAL_RANK",),
        ("MV2_COMM_WORLD_LOCAL_SIZE",),
    ),
    _Variables(
        "MPI",
        "PMI_SIZE",
        "PMI_RANK",
        ("MPI_LOCALRANKID", "PMI_LOCAL_RANK", "PALS_LOCAL_RANKID"),
        ("MPI_LOCALNRANKS", "PMI_LOCAL_SIZE", "PALS_LOCAL_SIZE"),
    ),
    _Variables("Flux", "FLUX_JOB_SIZE", "FLUX_TASK_RANK", ("FLUX_TASK_LOCAL_ID",)),
    # Not SLURM_NTASKS: a batch script has it, too, and is one process.
    _Variables(SLURM, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", ("SLURM_LOCALID",)),
)
_PMIX_RANK: Final = "PMIX_RANK"


def is_alone(environ: Mapping[str, str]) -> bool:
    """Whether AMPCORE_RANKS says that each copy of the program trains alone.

    Raises:
        ValueError: It has a value other than 1.
    """
    text = environ.get(RANKS)
    if text not in (None, "1"):
        raise ValueError(
            f"{RANKS}: expected 1, so that each copy of a program trains alone; received {text!r}. "
            "The number of ranks is that of the launcher."
        )
    return text is not None


def find_placement(environ: Mapping[str, str]) -> Placement | None:
    """The place of this process among several ranks; None: it was started once.

    Raises:
        ValueError: The variables say that there are several ranks, but not which one this is, or
            they contradict each other; the message names them.
    """
    for names in _LAUNCHERS:  # a size of 1 may be left over, or that of a launcher within another
        if (size := _number_or_none(environ, (names.size,), MAX_RANKS) or 1) > 1:
            return _placement(environ, names, size)
    has_size = any(names.size in environ for names in _LAUNCHERS)
    if not has_size and _number_or_none(environ, (_PMIX_RANK,), MAX_RANKS):
        raise ValueError(
            f"{_PMIX_RANK} is {environ[_PMIX_RANK]}, so this program has several ranks, but no "
            f"variable has their number. Set WORLD_SIZE and RANK, "
            f"{alone_hint()}."
        )
    return None


def _placement(environ: Mapping[str, str], names: _Variables, size: int) -> Placement:
    if names.rank not in environ:
        raise ValueError(
            f"{names.size} is {size}, but {names.rank} is not set: which of the {size} ranks this "
            f"process is, is not known. Set {names.rank}, "
            f"{alone_hint()}."
        )
    rank = _number(environ, names.rank, 0, size - 1)
    local_size = _number_or_none(environ, names.local_size, size)
    if names.launcher == SLURM and environ.get("SLURM_STEP_NUM_NODES") == "1":
        local_size = size
    return Placement(
        names.launcher,
        names.size,
        rank,
        size,
        _number_or_none(environ, names.local_rank, size - 1),
        local_size,
    )


def _number_or_none(environ: Mapping[str, str], names: tuple[str, ...], largest: int) -> int | None:
    """The number in the first of the variables that is set."""
    for name in names:
        if name in environ:
            return _number(environ, name, 0, largest)
    return None


def _number(environ: Mapping[str, str], name: str, smallest: int, largest: int) -> int:
    text = environ[name]
    number = int(text) if text.isascii() and text.isdigit() else -1
    if not smallest <= number <= largest:
        raise ValueError(
            f"{name}: expected an integer from {smallest} to {largest}; received {text!r}."
        )
    return number


def alone_hint() -> str:
    """The end of a message: what to do if the ranks are meant to be copies."""
    return f"or {RANKS}=1 if each copy is meant to train alone"
