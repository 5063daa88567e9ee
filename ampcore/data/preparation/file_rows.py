"""FileRows: the training or validation rows of a data file, and checks of their input columns."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ampcore.data.preparation.preprocessing import ColumnPlan
from ampcore.data.preparation.targets import is_whole
from ampdata import Source
from ampdata.row_places import RowPlace
from ampspec.errors import InvalidData

Array = NDArray[Any]
Indices = NDArray[np.int64]

CHUNK_BYTES: Final = 16 * 2**20
"""Raw rows are read in pieces of about this size."""
MAX_KEYS: Final = 2**31 - 1
"""Keys are int32."""


@dataclass(frozen=True)
class FileRows:
    """Some rows of a source.

    Attributes:
        source: The file.
        rows: Their numbers, from 0, ascending.
        name: The name of the file in errors.
    """

    source: Source
    rows: Indices
    name: str

    def __len__(self) -> int:
        return len(self.rows)

    def place_of(self) -> Callable[[int], RowPlace]:
        """A function from the index of an example to its place; it does not hold the file."""
        rows, places = self.rows, self.source.row_places()
        return lambda example: places.of(int(rows[example]))

    def read(self, columns: Sequence[str], indices: Indices) -> dict[str, Array]:
        """The values of some columns in the rows with these indices, ascending."""
        return self.source.read(self.rows[indices], list(columns))

    def chunks(self, columns: Sequence[str]) -> Iterator[tuple[Indices, dict[str, Array]]]:
        """The row numbers and values of some columns, piece by piece."""
        row_bytes = sum(8 * int(np.prod(self.source.columns[column].shape)) for column in columns)
        size = max(1, CHUNK_BYTES // max(1, row_bytes))
        for start in range(0, len(self.rows), size):
            numbers = self.rows[start : start + size]
            yield numbers, self.source.read(numbers, columns)

    def check_inputs(
        self,
        numbers: Indices,
        raw: Mapping[str, Array],
        plans: Mapping[str, ColumnPlan],
        key_limits: Mapping[str, int],
    ) -> None:
        """Check the raw values of input columns.

        Args:
            numbers: The numbers of the rows.
            raw: Their values by column.
            plans: How each of these columns is prepared.
            key_limits: The number of keys by column, where it is known.

        Raises:
            InvalidData: A number is not finite in float32, a category is not whole, or a key has no
                row in the table.
        """
        for column, values in raw.items():
            options = plans[column].options
            if values.dtype.kind == "f" and options.categories is not None:
                bad = ~np.isnan(values) & ~is_whole(values)
                expected = "a whole number, as every category is"
            elif values.dtype.kind == "f":
                with np.errstate(over="ignore"):
                    finite = np.isfinite(values.astype(np.float32, copy=False))
                bad = ~finite if options.missing == "error" else ~(finite | np.isnan(values))
                expected = "a number that is finite in float32"
                if options.missing == "error" and np.isnan(values[bad]).any():
                    expected += f", or `preprocessing: {{{column}: {{missing: mean}}}}`"
            elif options.keys:
                limit = key_limits.get(column, MAX_KEYS)
                bad = (values < 0) | (values >= limit)
                origin = ", those of the training examples" if column in key_limits else ""
                expected = f"a key from 0 to {limit - 1}{origin}"
            else:
                continue
            if bad.any():
                place = tuple(np.argwhere(bad)[0])
                raise InvalidData(
                    self.name,
                    f"row {numbers[place[0]] + 1}, column {column}",
                    expected=expected,
                    received=str(values[place]),
                )
