"""The stored positions of a source's rows: the file, and the row in it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class RowPlace:
    """The stored position of an example.

    Attributes:
        file: The file; None for data that has none.
        row: The row in the file, counted from 1 without a header, as in errors; None if the file
            is one example, such as an image.
        character: For a window of text: its first character in the file, counted from 1.
    """

    file: str | None = None
    row: int | None = None
    character: int | None = None


@dataclass(frozen=True)
class RowPlaces:
    """The places of all rows of a source. It holds no file open.

    Attributes:
        files: The names of its files, in the order of their rows.
        rows: The number of rows of each; None if each file is one row.
    """

    files: Sequence[str]
    rows: Sequence[int] | None

    def of(self, row: int) -> RowPlace:
        """The place of a row of the source, counted from 0."""
        if self.rows is None:
            return RowPlace(self.files[row])
        ends = np.cumsum(self.rows)
        file = int(np.searchsorted(ends, row, side="right"))
        return RowPlace(self.files[file], row - int(ends[file] - self.rows[file]) + 1)
