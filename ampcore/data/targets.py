"""Targets: classes, labels and numbers from the columns of a file, in the form of the losses."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.errors import InvalidData
from ampcore.formats import Column
from ampcore.spec.task import TargetKind

Array = NDArray[Any]
Pieces = Iterable[tuple[NDArray[np.int64], Array]]
"""The row numbers and values of a column, piece by piece."""
MAX_CLASSES: Final = 100_000
MAX_NAMED: Final = 5


@dataclass(frozen=True)
class Encoding:
    """How the values of a column become targets.

    Attributes:
        kind: What the targets are.
        size: The number of classes, labels or numbers.
        names: The names of the classes, if the values are names.
        one_hot: Whether the values are rows with a 1 at the class.
        shape: The positions of one example that have a target each: (height, width) of a mask.
    """

    kind: TargetKind
    size: int
    names: tuple[str, ...] | None = None
    one_hot: bool = False
    shape: tuple[int, ...] = ()

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
        if self.names is not None and values.dtype.kind not in "iub":
            number_of = {name: number for number, name in enumerate(self.names)}
            unknown = [name for name in dict.fromkeys(values.reshape(-1)) if name not in number_of]
            if unknown:
                raise InvalidData(
                    source,
                    field,
                    expected="the classes of the training examples, "
                    f"{', '.join(self.names[:MAX_NAMED])}, …",
                    received=repr(unknown[0]),
                )
            found = [number_of[name] for name in values.reshape(-1)]
            return np.array(found, np.int32).reshape(values.shape)
        _check_range(values, self.size, source, field)
        return _without_column_axis(values).astype(np.int32)


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
    found = _ClassValues(source, field)
    for _, values in pieces:
        found.add(values)
    return found.encoding(column)


def check_targets(encoding: Encoding, pieces: Pieces, source: str, field: str) -> None:
    """Check the values of validation examples.

    Raises:
        InvalidData: A number is not finite, or no training example has the class.
    """
    for rows, values in pieces:
        if encoding.kind == "class":
            encoding(values, source, field)
        else:
            _check_numbers(rows, values, encoding.kind, source, field)


class _ClassValues:
    """The classes that occur in a column, gathered piece by piece."""

    def __init__(self, source: str, field: str) -> None:
        self._source, self._field = source, field
        self._names: set[Any] = set()
        self._is_one_hot = True
        self._first: Array | None = None
        self._low, self._high = 0, 0

    def add(self, values: Array) -> None:
        """Take account of the values of more rows."""
        self._first = values if self._first is None else self._first
        if values.dtype == object:
            self._names.update(values.reshape(-1).tolist())
            _checked_count(max(len(self._names), 1), self._source, self._field)
            return
        self._is_one_hot = self._is_one_hot and _is_one_hot(values)
        if values.dtype.kind in "iub":
            self._low = min(self._low, int(values.min(initial=0)))
            self._high = max(self._high, int(values.max(initial=0)))

    def encoding(self, column: Column) -> Encoding:
        """The encoding of all values. Raises InvalidData if they are no classes."""
        values = self._first
        if values is None:
            raise InvalidData(self._source, self._field, expected="a row", received="none")
        if column.dtype == "string":
            if None in self._names:
                raise self._invalid("a class in every row", "a missing value")
            names = tuple(sorted(self._names))
            return Encoding("class", self._count(len(names)), names, shape=values.shape[1:])
        if self._is_one_hot:
            return Encoding("class", values.shape[-1], one_hot=True)
        if values.dtype.kind not in "iub":
            raise self._invalid(
                "classes: integers from 0, names, or one-hot rows (or task.kind: regression)",
                f"dtype {values.dtype}",
            )
        positions = _without_column_axis(values).shape[1:]
        if self._low < 0:
            raise self._invalid("classes from 0", f"{self._low}")
        if column.classes is None:
            return Encoding("class", self._count(self._high + 1), shape=positions)
        named = column.classes
        if self._high >= len(named):
            raise self._invalid(f"classes from 0 to {len(named) - 1}", f"{self._high}")
        return Encoding("class", len(named), tuple(named), shape=positions)

    def _count(self, classes: int) -> int:
        return _checked_count(classes, self._source, self._field)

    def _invalid(self, expected: str, received: str) -> InvalidData:
        return InvalidData(self._source, self._field, expected=expected, received=received)


def _checked_count(count: int, source: str, field: str) -> int:
    if not 1 <= count <= MAX_CLASSES:
        raise InvalidData(
            source, field, expected=f"at most {MAX_CLASSES} classes", received=f"{count}"
        )
    return max(count, 2)


def _is_one_hot(values: Array) -> bool:
    if values.ndim != 2 or values.shape[1] < 2 or values.dtype.kind not in "iubf":
        return False
    return bool(((values == 0) | (values == 1)).all() and (values.sum(axis=1) == 1).all())


def _check_numbers(
    rows: NDArray[np.int64], values: Array, kind: TargetKind, source: str, field: str
) -> None:
    if values.dtype.kind not in "iubf":
        received = f"dtype {values.dtype}"
        raise InvalidData(source, field, expected="numbers", received=received)
    with np.errstate(over="ignore"):
        wrong = ~np.isfinite(values.astype(np.float32, copy=False))
    expected = "numbers that are finite in float32"
    if kind == "labels":
        wrong, expected = (values != 0) & (values != 1), "labels that are 0 or 1"
    if wrong.any():
        first = tuple(np.argwhere(wrong)[0])
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
