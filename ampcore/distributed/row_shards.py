"""RowShard: which rows of a table a rank owns. It needs no TensorFlow.

Row r lives on rank r % size, as its local row r // size. Keys are often numbered by frequency, or
by field in contiguous ranges: dealing them out in turn gives every rank its share of the frequent
ones, where contiguous ranges would give them to one rank.
"""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True)
class RowShard:
    """The rows of a table that one rank owns.

    Args:
        rows: The rows of the whole table.
        rank: The number of this rank.
        size: The number of ranks.

    Raises:
        ValueError: There are fewer rows than ranks, or no such rank.
    """

    rows: int
    rank: int
    size: int

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.size:
            raise ValueError(f"rank: expected 0 to {self.size - 1}; received {self.rank}.")
        if self.rows < self.size:
            raise ValueError(
                f"rows: expected at least {self.size}, one for each rank; received {self.rows}."
            )

    @property
    def local_rows(self) -> int:
        """The number of rows of this rank."""
        return self.rows_of(self.rank)

    def rows_of(self, rank: int) -> int:
        """The number of rows of a rank."""
        return len(range(rank, self.rows, self.size))

    def owner(self, keys: Any) -> Any:
        """The rank of each row: of integers, arrays or tensors."""
        return keys % self.size

    def local(self, keys: Any) -> Any:
        """The local row of each row, on its rank."""
        return keys // self.size

    def own_rows(self, whole: NDArray[Any]) -> NDArray[Any]:
        """The rows of this rank in an array of the whole table; a view."""
        return whole[self.rank :: self.size]
