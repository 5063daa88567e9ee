"""Which columns of a file are inputs and targets, and how each input column is prepared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ampcore.data.preparation.file_rows import FileRows
from ampcore.data.preparation.preprocessing import ColumnPlan
from ampdata import Column
from ampspec.data.column_fit import TEXT, preprocessing_misfit
from ampspec.data.data import Columns, Csv
from ampspec.data.input_columns import input_columns
from ampspec.data.preprocessing import Preprocessing
from ampspec.data.target_columns import target_columns
from ampspec.errors import InvalidData
from ampspec.objectives.task import Outputs, TargetKind, TaskSpec

EVERY_COLUMN: Final = "*"
"""The key of preprocessing for all columns without an own one."""
MAX_NAMED: Final = 10
MAX_SHOWN: Final = 40


@dataclass(frozen=True)
class Roles:
    """The columns of each input, and of each target by the output that it belongs to."""

    inputs: Mapping[str, tuple[str, ...]]
    targets: Mapping[str, tuple[str, ...]]
    kinds: Mapping[str, TargetKind]


def column_roles(
    spec: Columns, task: TaskSpec | None, columns: Mapping[str, Column], name: str
) -> Roles:
    """The columns of the inputs and targets.

    Args:
        spec: The names that it gives; others have defaults.
        task: Decides what targets are; None: classes.
        columns: Those of the training data.
        name: The name of the file in errors.

    Raises:
        InvalidData: The data has no such column, or one of them is an input and a target.
    """
    targets, kinds = _target_roles(spec, task, columns, name)
    used = {column for group in targets.values() for column in group}
    inputs = input_columns(spec, used, columns)
    for input_name, group in inputs.items():
        _check_columns(group, columns, name, f"inputs.{input_name}")
        if both := [column for column in group if column in used]:
            raise InvalidData(
                name, f"inputs.{input_name}", expected="no targets", received=", ".join(both)
            )
    return Roles(inputs, targets, kinds)


def _target_roles(
    spec: Columns, task: TaskSpec | None, columns: Mapping[str, Column], name: str
) -> tuple[dict[str, tuple[str, ...]], dict[str, TargetKind]]:
    targets = target_columns(spec, task, columns)
    for output, group in targets.items():
        if not group:
            raise InvalidData(
                name,
                "target",
                expected=f"the column to predict, one of {', '.join(list(columns)[:MAX_NAMED])}",
                received="none",
            )
        _check_columns(group, columns, name, f"targets.{output}")
    if isinstance(task, Outputs):
        return targets, {output: part.task.target for output, part in task.outputs.items()}
    return targets, dict.fromkeys(targets, task.target if task is not None else "class")


def _check_columns(
    group: Sequence[str], columns: Mapping[str, Column], name: str, field: str
) -> None:
    unknown = [column for column in group if column not in columns]
    if unknown or not group:
        raise InvalidData(
            name,
            field,
            expected=f"columns of the data: {', '.join(list(columns)[:MAX_NAMED]) or 'none'}",
            received=", ".join(unknown) or "none",
        )


def column_plans(spec: Columns, roles: Roles, rows: FileRows) -> dict[str, list[ColumnPlan]]:
    """How the columns of each input are prepared.

    Args:
        spec: The preprocessing of columns.
        roles: Which of them are inputs.
        rows: The training rows.

    Raises:
        InvalidData: The preprocessing of a column does not fit its values.
    """
    every = {column for group in roles.inputs.values() for column in group}
    unknown = [
        column for column in spec.preprocessing if column != EVERY_COLUMN and column not in every
    ]
    if unknown:
        raise InvalidData(
            rows.name,
            f"preprocessing.{unknown[0]}",
            expected=f"an input column: {', '.join(sorted(every)[:MAX_NAMED])}",
            received="a column that is no input",
        )
    default = spec.preprocessing.get(EVERY_COLUMN, Preprocessing())
    return {
        input_name: [
            _plan(column, spec.preprocessing.get(column, default), spec, rows) for column in group
        ]
        for input_name, group in roles.inputs.items()
    }


def _plan(column: str, options: Preprocessing, spec: Columns, rows: FileRows) -> ColumnPlan:
    values = rows.source.columns[column]
    if (misfit := preprocessing_misfit(values.dtype, options)) is not None:
        hint = _where_text_is(column, spec, rows) if values.dtype == TEXT else ""
        raise InvalidData(
            rows.name,
            f"preprocessing.{column}",
            expected=misfit.expected + hint,
            received=misfit.received,
        )
    return ColumnPlan(column, values, options)


def _where_text_is(column: str, spec: Columns, rows: FileRows) -> str:
    """The first value that is no number, and what a spec can say about it.

    One word among numbers, such as NA, makes a whole column of a CSV file text, and so does a zero
    in front of a number.
    """
    word, code, has_numbers = None, None, False
    for numbers, raw in rows.chunks([column]):
        for row, value in zip(numbers, raw[column].reshape(-1), strict=False):
            if value is None:
                continue
            example = f" such as {value[:MAX_SHOWN]!r} in row {row + 1}"
            if _is_number(value):
                has_numbers = True
                code = code or (example if value.startswith("0") and value.isdecimal() else None)
            else:
                word = word or example
            if word is not None and has_numbers:
                hint = " (or `missing_values`: the words that stand for a missing value)"
                return word + (hint if isinstance(spec, Csv) else "")
    if word is None and code is not None and isinstance(spec, Csv):
        return f"{code} (or `dtypes: {{{column}: int64}}`)"
    return word or ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_same_columns(
    train: Mapping[str, Column], validation: Mapping[str, Column], roles: Roles, name: str
) -> None:
    """Raise InvalidData unless validation examples have the columns of training examples.

    Targets may have another dtype (the same classes fit in several), and an axis of length 1.
    """
    inputs = [column for group in roles.inputs.values() for column in group]
    targets = [column for group in roles.targets.values() for column in group]
    for column in (*inputs, *targets):
        train_column, validation_column = train[column], validation.get(column)
        if validation_column is not None and column in targets:
            is_same = _without_last_one(validation_column.shape) == _without_last_one(
                train_column.shape
            )
        else:
            is_same = validation_column is not None and replace(
                validation_column, classes=None, missing=0
            ) == replace(train_column, classes=None, missing=0)
        if not is_same:
            received = (
                f"{validation_column.dtype} {list(validation_column.shape)}"
                if validation_column is not None
                else "no such column"
            )
            raise InvalidData(
                name,
                f"{column} of the validation examples",
                expected=f"{train_column.dtype} {list(train_column.shape)}, "
                "as of the training examples",
                received=received,
            )


def _without_last_one(shape: tuple[int, ...]) -> tuple[int, ...]:
    return () if shape == (1,) else shape
