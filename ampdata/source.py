"""Source: the rows of a data file by number, as NumPy arrays by column."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from ampdata.limits import Limits
from ampdata.row_places import RowPlaces
from ampspec.data.file_formats import FormatOptions
from ampspec.documents.text import join_names
from ampspec.errors import InvalidData

Array = NDArray[Any]
Indices = NDArray[np.int64]
Split = Literal["train", "validation", "test"]
Dtype = Literal[
    "uint8", "int32", "int64", "float16", "float32", "float64", "bool", "string", "image"
]


@dataclass(frozen=True)
class Column:
    """One column of a source."""

    shape: tuple[int, ...]
    """The shape of one example; images have height, width and channels."""
    dtype: Dtype
    """`image` is read as uint8, `string` as Python's str in an array of objects."""
    classes: tuple[str, ...] | None = None
    """The names of the values 0, 1, …, if the format has them."""
    missing: int = 0
    """The rows without a value. Numbers are then float64 with NaN, text is None."""


@dataclass(frozen=True)
class LeftOut:
    """A part of the data that is not read, and why."""

    name: str
    """A column, a file or a class, or a pattern for several."""
    reason: str


@dataclass(frozen=True)
class ListedColumns:
    """The columns of a source, known before it is opened.

    Attributes:
        columns: The readable columns; for tables, from the schema and the first rows.
        left_out: The other columns.
    """

    columns: Mapping[str, Column]
    left_out: Sequence[LeftOut] = ()


@dataclass(frozen=True)
class OpenRequest:
    """The file to open, and the part to read."""

    path: Path
    name: str
    """The name in messages; the path would show the server's folders."""
    cache: Path
    """A folder for converted files; other sources of the same file reuse them."""
    split: Split | None = None
    columns: Sequence[str] | None = None
    limits: Limits = field(default_factory=Limits)
    any_size: bool = False
    """Open images of different sizes, too; they can be read only by `image_bytes`."""
    split_patterns: Mapping[Split, str] = field(default_factory=dict)
    """Patterns for the files or arrays of each split, instead of the rule for names."""


class Source(ABC):
    """The rows of a data file. Several threads may read at the same time."""

    rows: int
    columns: Mapping[str, Column]
    options: FormatOptions | None = None
    """The complete options, if some of the requested options were detected in the file."""
    left_out: Sequence[LeftOut] = ()
    """Parts of the data that cannot be read or belong to no row."""

    def read(self, indices: Indices, columns: Sequence[str] | None = None) -> dict[str, Array]:
        """Read rows in any order; a row may occur several times.

        Args:
            indices: Row numbers (n,), each from 0 to `rows` - 1.
            columns: Only these of the source's columns.

        Returns:
            For each column an array (n, *shape) of its dtype, in the order of `indices`.

        Raises:
            IndexError: A row number is out of range.
            KeyError: The source has no such column.
            InvalidData: A row cannot be read.
        """
        indices = np.asarray(indices, np.int64)
        if indices.ndim != 1:
            raise IndexError(f"Expected row numbers (n,). Received: shape {indices.shape}.")
        if len(indices) and not (indices.min() >= 0 and indices.max() < self.rows):
            raise IndexError(
                f"Expected row numbers from 0 to {self.rows - 1}. "
                f"Received: {indices.min()} to {indices.max()}."
            )
        if columns is None:
            return self._read(indices, self.columns)
        return self._read(indices, {name: self.columns[name] for name in columns})

    @abstractmethod
    def _read(self, indices: Indices, columns: Mapping[str, Column]) -> dict[str, Array]:
        """Read some columns of rows whose numbers are valid."""

    @abstractmethod
    def row_places(self) -> RowPlaces:
        """The file and the row in it of every row."""

    def image_bytes(self, column: str, row: int) -> bytes:
        """The PNG or JPEG file of a row in a column of images."""
        raise KeyError(column)

    def image_name(self, column: str, row: int) -> str:
        """The name of an image, for people."""
        return f"{column} {row + 1}"

    def check(self) -> None:  # noqa: B027 - most sources are checked when they are opened
        """Decode every image. Raises InvalidData, which names all damaged ones."""

    def close(self) -> None:  # noqa: B027 - most sources have nothing to close
        """Close open files."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def choose_columns(name: str, available: Iterable[str], columns: Sequence[str] | None) -> list[str]:
    """The requested columns, or all. Raises InvalidData for a column that does not exist."""
    every = list(available)
    if columns is None:
        return every
    for column in columns:
        if column not in every:
            raise InvalidData(
                name,
                f"column {column}",
                expected=f"one of the columns {join_names(every, 20) or '(none)'}",
                received="no column of this name",
            )
    return list(dict.fromkeys(columns))


def choose_split(name: str, available: Sequence[Split], split: Split | None) -> Split | None:
    """The requested split; by default the training data, or None without splits.

    Raises InvalidData for a split that does not exist, also if there is no training data.
    """
    if split is None:
        if not available:
            return None
        if "train" not in available:
            raise InvalidData(
                name,
                "split train",
                expected="training data, by its name or by the option `splits`",
                received=f"only {', '.join(available)}",
            )
        return "train"
    if split not in available:
        raise InvalidData(
            name,
            f"split {split}",
            expected=f"one of the splits {', '.join(available) or '(none)'}",
            received="no data of this name",
        )
    return split
