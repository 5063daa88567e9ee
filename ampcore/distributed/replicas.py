"""The replicas of a job: processes that train the same weights on different examples."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

Tensor = Any
ReduceOp = Literal["mean", "sum", "max"]


class Replicas(Protocol):
    """The number of replicas, the rank of this one, and the all-reduce between them."""

    @property
    def size(self) -> int:
        """The number of replicas, at least 1."""

    @property
    def rank(self) -> int:
        """The number of this replica: 0 … size - 1."""

    def all_reduce(self, tensors: Sequence[Tensor], op: ReduceOp = "mean") -> list[Tensor]:
        """Combine each tensor with those at the same position on all other replicas.

        All replicas call it with tensors of the same shapes and dtypes, and all receive the same
        values. NaN and infinities stay non-finite. It must not be called inside a branch that
        one replica may take and another may not.
        """


class SingleReplica:
    """A single replica: no communication, and no additional operation in a step."""

    @property
    def size(self) -> int:
        """1."""
        return 1

    @property
    def rank(self) -> int:
        """0."""
        return 0

    def all_reduce(self, tensors: Sequence[Tensor], op: ReduceOp = "mean") -> list[Tensor]:
        """The same tensors, whatever `op` is."""
        return list(tensors)
