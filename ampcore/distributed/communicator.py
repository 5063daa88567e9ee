"""Communicator: how a rank, one process of a job on several devices, reaches the others."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from ampspec.errors import TrainingError

Tensor = Any
ReduceOp = Literal["mean", "sum", "max"]


class Communicator(Protocol):
    """The number of ranks, the number of this one, and the communication between them.

    Every method except `explain` and `close` is called by all ranks, in the same order, with
    tensors of the same shapes and dtypes. The first five may be part of a compiled function, but
    not of a branch that one rank may take and another may not; the others are called between
    compiled functions.
    """

    @property
    def size(self) -> int:
        """The number of ranks, at least 1."""

    @property
    def rank(self) -> int:
        """The number of this rank: 0 … size - 1."""

    @property
    def is_closed(self) -> bool:
        """Whether this rank has disconnected."""

    def all_reduce(self, tensors: Sequence[Tensor], op: ReduceOp = "mean") -> list[Tensor]:
        """Combine each tensor with those at the same position on all other ranks.

        All receive the same values, bit for bit. NaN and infinities stay non-finite.
        """

    def all_gather(
        self, tensors: Sequence[Tensor], size_class: Tensor | None = None
    ) -> list[Tensor]:
        """Concatenate each tensor with those of the others along the first axis, by rank.

        Within a compiled function a call has tensors of the same shapes at every execution, unless
        the first axis has a size of `size_classes`, whose number is `size_class`.
        """

    def all_to_all(
        self, tensors: Sequence[Tensor], size_class: Tensor | None = None
    ) -> list[Tensor]:
        """Send part r of each tensor to rank r; returns the parts received, in order of rank.

        A tensor has `size` equal parts along its first axis, and so has the result. The length of
        the parts may be different at every execution as in `all_gather`.
        """

    def broadcast(self, tensors: Sequence[Tensor], root: int = 0) -> list[Tensor]:
        """The tensors of rank `root`."""

    def barrier(self) -> None:
        """Wait until all ranks are here."""

    def broadcast_object(self, value: Any) -> Any:
        """What rank 0 passes, on every rank: JSON values. The others wait for rank 0."""

    def all_gather_object(self, value: Any) -> list[Any]:
        """What each rank passes, in order of rank: JSON values."""

    def explain(self, error: Exception) -> TrainingError | None:
        """Why a call failed, if the cause is another rank or the connection to it."""

    def close(self, failure: TrainingError | None = None) -> None:
        """Disconnect; a failure ends the other ranks, too."""


class SingleRank:
    """A single rank: no communication, and no additional operation in a step."""

    @property
    def size(self) -> int:
        """1."""
        return 1

    @property
    def rank(self) -> int:
        """0."""
        return 0

    @property
    def is_closed(self) -> bool:
        """False: it has no others."""
        return False

    def all_reduce(self, tensors: Sequence[Tensor], op: ReduceOp = "mean") -> list[Tensor]:
        """The same tensors, whatever `op` is."""
        return list(tensors)

    def all_gather(
        self, tensors: Sequence[Tensor], size_class: Tensor | None = None
    ) -> list[Tensor]:
        """The same tensors."""
        return list(tensors)

    def all_to_all(
        self, tensors: Sequence[Tensor], size_class: Tensor | None = None
    ) -> list[Tensor]:
        """The same tensors."""
        return list(tensors)

    def broadcast(self, tensors: Sequence[Tensor], root: int = 0) -> list[Tensor]:
        """The same tensors."""
        return list(tensors)

    def barrier(self) -> None:
        """Returns at once."""

    def broadcast_object(self, value: Any) -> Any:
        """The same value."""
        return value

    def all_gather_object(self, value: Any) -> list[Any]:
        """A list of the one value."""
        return [value]

    def explain(self, error: Exception) -> TrainingError | None:
        """None: there is no other rank."""
        return None

    def close(self, failure: TrainingError | None = None) -> None:
        """Nothing to do."""
