"""Targets: classes, labels and numbers from the columns of a file, in the form of the losses."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampdata import Column
from ampspec.errors import InvalidData
from ampspec.objectives.task import TargetKind

Array = NDArray[Any]
Pieces = Iterable[tuple[NDArray[np.int64], Array]]
"""The row numbers and values of a column, piece by piece."""
LEAVE_OUT: Final = ", or `missing_targets: leave_out`"
"""What a spec can say about rows without a target."""
MAX_CLASSES: Final = 100_000
CLASSES: Final = "classes: whole numbers, names, or one-hot rows (or task.kind: regression)"
MAX_NAMED: Final = 5
MAX_SHOWN: Final = 40
"""Characters of a text in a message."""
MAX_GAPPED: Final = 1000
"""More numbers with gaps between them are quantities or ids, not classes."""
MIN_DENSE: Final = 0.9
"""Numbers from 0 with fewer gaps stay as they are: rare classes may have no training example."""
MIN_ROWS: Final = 20
MAX_DIFFERENT: Final = 0.9
"""Numbers that hardly ever occur twice are no classes, from MIN_ROWS rows on."""
MAX_EXACT: Final = 2.0**53
"""Up to here float64 has every integer."""


@dataclass(frozen=True)
class Encoding:
    """How the values of a column become targets.

    Attributes:
        kind: What the targets are.
        size: The number of classes, labels or numbers.
        names: The names of the classes, if the values are names or `values` are set.
        one_hot: Whether the values are rows with a 1 at the class.
        shape: The positions of one example that have a target each: (height, width) of a mask.
        values: The number that each class has in the data, ascending; None: 0, 1, 2, …
        examples: The training examples of each class, of masks the pixels; None if unknown.
    """

    kind: TargetKind
    size: int
    names: tuple[str, ...] | None = None
    one_hot: bool = False
    shape: tuple[int, ...] = ()
    values: tuple[int, ...] | None = None
    examples: tuple[int, ...] | None = field(default=None, compare=False)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of a model's output for one example."""
        return (*self.shape, self.size)

    @property
    def spec(self) -> tf.TensorSpec:
        """The shape and dtype of the targets of one example."""
        if self.kind == "class":
            return tf.TensorSpec(self.shape, tf.int32)
        return tf.TensorSpec(self.output_shape, tf.float32)

    def __call__(self, values: Array, source: str, field: str) -> Array:
        """The targets: int32 classes, or float32 labels or numbers.

        Args:
            values: Values of the column, as for the training examples.
            source: The name of the data in errors.
            field: The name of the column in errors.

        Raises:
            InvalidData: A value is not one of those that the training examples have.
        """
        if self.kind != "class":
            numbers = values.astype(np.float32)
            return numbers.reshape(len(numbers), -1) if numbers.ndim == 1 else numbers
        if self.one_hot:
            classes: Array = np.argmax(values, axis=-1)
            return classes.astype(np.int32)
        if values.dtype == object and self.names is not None:
            number_of = {name: number for number, name in enumerate(self.names)}
            numbers = np.array([number_of.get(name, -1) for name in values.flat])
        elif self.values is not None:
            numbers = _places(values.reshape(-1), np.array(self.values))
        else:
            _check_range(values, self.size, source, field)
            return _without_column_axis(values).astype(np.int32)
        if (numbers < 0).any():
            names = self.names or ()
            raise InvalidData(
                source,
                field,
                expected="the classes of the training examples, "
                + ", ".join([*names[:MAX_NAMED], *(["…"] if len(names) > MAX_NAMED else [])]),
                received=repr(values.reshape(-1).tolist()[int(np.argmin(numbers))]),
            )
        encoded: Array = numbers.astype(np.int32).reshape(values.shape)
        return encoded if values.dtype == object else _without_column_axis(encoded)


def _places(values: Array, ascending: Array) -> Array:
    """The place of each value in an ascending array; -1 where it is not there."""
    places: Array = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return np.where(ascending[places] == values, places, -1)


def find_encoding(
    kind: TargetKind, pieces: Pieces, column: Column, source: str, field: str
) -> Encoding:
    """How the values of the training examples become targets.

    Args:
        kind: What they are.
        pieces: The row numbers and values of all training examples, at least one.
        column: Their shape and dtype; the names of classes where the format has them.
        source: The name of the data in errors.
        field: The name of the column in errors.

    Raises:
        InvalidData: They are not targets of this kind.
    """
    if kind != "class":
        shape: tuple[int, ...] = ()
        for rows, values in pieces:
            _check_numbers(rows, values, kind, source, field)
            shape = values.shape[1:]
        return Encoding(kind, shape[-1] if shape else 1, shape=tuple(shape[:-1]))
    classes = _ClassValues(source, field)
    for rows, values in pieces:
        _check_classes(rows, values, source, field)
        classes.add(values)
    return classes.encoding(column)


def check_targets(encoding: Encoding, pieces: Pieces, source: str, field: str) -> None:
    """Check the values of validation examples.

    Raises:
        InvalidData: A number is not finite, or no training example has the class.
    """
    for rows, values in pieces:
        if encoding.kind == "class":
            _check_classes(rows, values, source, field)
            encoding(values, source, field)
        else:
            _check_numbers(rows, values, encoding.kind, source, field)


class _ClassValues:
    """The classes that occur in a column, gathered piece by piece."""

    def __init__(self, source: str, field: str) -> None:
        self._source, self._field = source, field
        self._counts: Counter[Any] = Counter()
        self._is_one_hot = True
        self._one_hot_counts: Any = 0
        self._first: Array | None = None

    def add(self, values: Array) -> None:
        """Take account of the values of more rows."""
        self._first = values if self._first is None else self._first
        if values.dtype == object:
            self._counts.update(values.reshape(-1).tolist())
        elif values.dtype.kind in "iubf":
            self._is_one_hot = self._is_one_hot and _is_one_hot(values)
            if self._is_one_hot:
                self._one_hot_counts = self._one_hot_counts + values.sum(axis=0)
            self._counts.update(_count_numbers(values))
        self._check_count(max(len(self._counts), 1))

    def encoding(self, column: Column) -> Encoding:
        """The encoding of all values. Raises InvalidData if they are no classes."""
        values = self._first
        if values is None:
            raise InvalidData(self._source, self._field, expected="a row", received="none")
        if column.dtype == "string":
            names = tuple(sorted(self._counts))
            return self._of(names, names, values.shape[1:])
        if values.dtype.kind not in "iubf":
            raise self._invalid(CLASSES, f"dtype {values.dtype}")
        if self._is_one_hot:
            counts = tuple(int(count) for count in self._one_hot_counts)
            return Encoding("class", values.shape[-1], one_hot=True, examples=counts)
        positions = _without_column_axis(values).shape[1:]
        if column.classes is None:
            return self._numbered(positions)
        last = len(column.classes) - 1
        for number in (min(self._counts), max(self._counts)):
            if not 0 <= number <= last:
                raise self._invalid(f"classes from 0 to {last}", f"{number}")
        return self._of(range(last + 1), tuple(column.classes), positions)

    def _numbered(self, positions: tuple[int, ...]) -> Encoding:
        """The encoding of integers without names: 0, 1, 2, … or any others."""
        numbers, rows = sorted(self._counts), self._counts.total()
        low, size = numbers[0], numbers[-1] + 1
        is_binary = low >= 0 and size <= 2
        is_dense = is_binary or (low == 0 and len(numbers) >= MIN_DENSE * size)
        if (rows >= MIN_ROWS and len(numbers) > MAX_DIFFERENT * rows) or (
            len(numbers) > MAX_GAPPED and not is_dense
        ):
            raise self._invalid(
                f"classes: 0, 1, 2, …, or at most {MAX_GAPPED} other numbers, most of them in "
                "several rows (or task.kind: regression)",
                f"{len(numbers)} different numbers in {rows} rows, as {low} and {size - 1}",
            )
        if is_dense:
            return self._of(range(max(size, 2)), None, positions)
        return replace(
            self._of(numbers, tuple(map(str, numbers)), positions), values=tuple(numbers)
        )

    def _of(
        self, values: Sequence[Any], names: tuple[str, ...] | None, positions: tuple[int, ...]
    ) -> Encoding:
        self._check_count(len(values))
        counts = tuple(self._counts[value] for value in values)
        return Encoding("class", max(len(values), 2), names, shape=positions, examples=counts)

    def _check_count(self, count: int) -> None:
        if not 1 <= count <= MAX_CLASSES:
            raise self._invalid(
                f"at most {MAX_CLASSES} classes (or task.kind: regression)", f"{count}"
            )

    def _invalid(self, expected: str, received: str) -> InvalidData:
        return InvalidData(self._source, self._field, expected=expected, received=received)


def is_whole(values: Array) -> Array:
    """Which floats are integers that have a float64 of their own."""
    whole: Array = (np.floor(values) == values) & (np.abs(values) <= MAX_EXACT)
    return whole


def _count_numbers(values: Array) -> dict[int, int]:
    """How often each whole number occurs."""
    if values.dtype == np.uint8:
        counts = np.bincount(values.reshape(-1))
        numbers = np.flatnonzero(counts)
        counts = counts[numbers]
    else:
        numbers, counts = np.unique(values, return_counts=True)
    return dict(zip(numbers.astype(np.int64).tolist(), counts.tolist(), strict=True))


def _check_classes(rows: NDArray[np.int64], values: Array, source: str, field: str) -> None:
    """Raise InvalidData for a missing class, and for a number that is not whole."""
    if values.dtype == object:
        wrong = np.array([value is None for value in values.flat]).reshape(values.shape)
    elif values.dtype.kind == "f":
        wrong = ~is_whole(values)
    else:
        return
    if wrong.any():
        place = tuple(np.argwhere(wrong)[0])
        is_missing = values[place] is None or values[place] != values[place]
        raise InvalidData(
            source,
            field,
            expected=f"a class in every row{LEAVE_OUT}" if is_missing else CLASSES,
            received=f"{'a missing value' if is_missing else values[place]} "
            f"in row {rows[place[0]] + 1}",
        )


def _is_one_hot(values: Array) -> bool:
    if values.ndim != 2 or values.shape[1] < 2 or values.dtype.kind not in "iubf":
        return False
    return bool(((values == 0) | (values == 1)).all() and (values.sum(axis=1) == 1).all())


def _check_numbers(
    rows: NDArray[np.int64], values: Array, kind: TargetKind, source: str, field: str
) -> None:
    if values.dtype.kind not in "iubf":
        texts = [value for value in values.reshape(-1)[:MAX_NAMED] if value is not None]
        received = f"text such as {str(texts[0])[:MAX_SHOWN]!r}" if texts else "text"
        raise InvalidData(source, field, expected="numbers", received=received)
    with np.errstate(over="ignore"):
        wrong = ~np.isfinite(values.astype(np.float32, copy=False))
    expected = "numbers that are finite in float32"
    if kind == "labels":
        wrong, expected = (values != 0) & (values != 1), "labels that are 0 or 1"
    if wrong.any():
        first = tuple(np.argwhere(wrong)[0])
        if np.isnan(values[first]):
            expected += LEAVE_OUT
        received = f"{values[first]} in row {rows[first[0]] + 1}"
        raise InvalidData(source, field, expected=expected, received=received)


def _check_range(values: Array, size: int, source: str, field: str) -> None:
    if len(values) and not (values.min() >= 0 and values.max() < size):
        worst = values.max() if values.max() >= size else values.min()
        raise InvalidData(
            source,
            field,
            expected=f"classes from 0 to {size - 1}, those of the training examples",
            received=f"{int(worst)}",
        )


def _without_column_axis(values: Array) -> Array:
    """Classes (n,) of a column (n, 1)."""
    return values.reshape(-1) if values.ndim == 2 and values.shape[1] == 1 else values


def join_columns(columns: Sequence[Array]) -> Array:
    """One column as it is; several numbers or labels as one array (n, columns)."""
    return columns[0] if len(columns) == 1 else np.stack(columns, axis=-1)
