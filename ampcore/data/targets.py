"""Targets: classes, labels and numbers from the columns of a file, in the form of the losses."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ampcore.errors import InvalidData
from ampcore.formats import Column
from ampcore.spec.task import TargetKind

Array = NDArray[Any]
MAX_CLASSES: Final = 100_000
OUTPUT: Final = "output"
"""The name of the only output of a task that names none."""
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


def encode(
    kind: TargetKind, values: Array, column: Column, source: str, field: str
) -> tuple[Array, Encoding]:
    """The targets of the training examples, and their encoding.

    Args:
        kind: What they are.
        values: The values of all training examples.
        column: Their shape and dtype; the names of classes where the format has them.
        source: The name of the data in errors.
        field: The name of the column in errors.

    Raises:
        InvalidData: They are not targets of this kind.
    """
    if kind == "class":
        encoding = _classes(values, column, source, field)
    else:
        _check_numbers(values, kind, source, field)
        encoding = Encoding(kind, int(values.shape[-1]) if values.ndim > 1 else 1)
    targets = encoding(values, source, field)
    positions = targets.shape[1:] if kind == "class" else targets.shape[1:-1]
    return targets, replace(encoding, shape=tuple(positions))


def _classes(values: Array, column: Column, source: str, field: str) -> Encoding:
    if column.dtype == "string":
        if any(value is None for value in values.reshape(-1)):
            raise InvalidData(
                source, field, expected="a class in every row", received="a missing value"
            )
        names = tuple(sorted(set(values.reshape(-1))))
        return Encoding("class", _checked_count(len(names), source, field), names)
    if _is_one_hot(values):
        return Encoding("class", values.shape[-1], one_hot=True)
    if values.dtype.kind not in "iub":
        raise InvalidData(
            source,
            field,
            expected="classes: integers from 0, names, or one-hot rows (or task.kind: regression)",
            received=f"dtype {values.dtype}",
        )
    if column.classes is not None:
        return Encoding("class", len(column.classes), tuple(column.classes))
    if values.min() < 0:
        raise InvalidData(source, field, expected="classes from 0", received=f"{int(values.min())}")
    return Encoding("class", _checked_count(int(values.max()) + 1, source, field))


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


def _check_numbers(values: Array, kind: TargetKind, source: str, field: str) -> None:
    if values.dtype.kind not in "iubf":
        received = f"dtype {values.dtype}"
        raise InvalidData(source, field, expected="numbers", received=received)
    wrong = ~np.isfinite(values.astype(np.float32))
    expected = "numbers that are finite in float32"
    if kind == "labels":
        wrong, expected = (values != 0) & (values != 1), "labels that are 0 or 1"
    if wrong.any():
        row = tuple(int(index) for index in np.argwhere(wrong)[0])
        raise InvalidData(
            source, field, expected=expected, received=f"{values[row]} in row {row[0]}"
        )


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
