"""For training loops that were written for Keras 2, SparseOperationKit or Horovod.

The loss scale, the finite check and the skipped steps are those of `ampcore.precision`; the names
and the order of calls are those that such a loop has already.
"""

from typing import Any

from ampcore.compat.collectives import (
    all_gather,
    all_reduce,
    broadcast_variables,
    init,
    local_rank,
    rank,
    session,
    size,
)
from ampcore.compat.distributed_tape import Average, Compression, DistributedGradientTape, Sum
from ampcore.compat.embedding_variables import split_embedding_variables
from ampcore.compat.horovod_names import WRITE_INSTEAD
from ampcore.compat.loss_scale_optimizer import LossScaleOptimizer

__all__ = [
    "Average",
    "Compression",
    "DistributedGradientTape",
    "LossScaleOptimizer",
    "Sum",
    "all_gather",
    "all_reduce",
    "broadcast_variables",
    "init",
    "local_rank",
    "rank",
    "session",
    "size",
    "split_embedding_variables",
]


def __getattr__(name: str) -> Any:
    """Names of Horovod that do not exist here: the error says what to write."""
    if name in WRITE_INSTEAD:
        raise AttributeError(f"ampcore.compat has no {name}. Write: {WRITE_INSTEAD[name]}.")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
