"""For training loops that were written for Keras 2, SparseOperationKit or Horovod.

The loss scale, the finite check and the skipped steps are those of `ampcore.precision`; the names
and the order of calls are those that such a loop has already.
"""

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
from ampcore.compat.embedding_variables import split_embedding_variables
from ampcore.compat.loss_scale_optimizer import LossScaleOptimizer

__all__ = [
    "LossScaleOptimizer",
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
