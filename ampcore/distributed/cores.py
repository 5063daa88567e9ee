"""The cores of a rank: the ranks on one machine do not compete for the same ones."""

import os
from collections.abc import Sequence

from ampcore.distributed.environment import THREADS, inter_op_threads


def cores_of_rank(rank: int, ranks: int, cores: Sequence[int]) -> list[int]:
    """The cores that a rank is pinned to: an equal share, or one of them in turn."""
    share = len(cores) // ranks
    if share == 0:
        return [cores[rank % len(cores)]]
    return list(cores[rank * share : (rank + 1) * share])


def use_own_cores(rank: int, ranks: int) -> None:
    """Pin this process to its share of its cores; call it before TensorFlow starts its threads.

    Args:
        rank: Which of the ranks on this machine it is, from 0.
        ranks: How many of the job's ranks are on this machine.
    """
    cores = cores_of_rank(rank, ranks, sorted(os.sched_getaffinity(0)))
    os.sched_setaffinity(0, cores)
    for name in THREADS:
        os.environ.setdefault(name, str(len(cores)))
    os.environ.update(inter_op_threads(len(cores), os.environ))
