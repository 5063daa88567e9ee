"""Makes a Dataset of columns, from a file or from memory: roles, preprocessing, targets."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from ampcore.data.dataset import Dataset, Signature
from ampcore.data.preparation.column_roles import (
    Roles,
    check_same_columns,
    column_plans,
    column_roles,
)
from ampcore.data.preparation.file_rows import Array, FileRows, Indices
from ampcore.data.preparation.left_out_rows import rows_with_targets
from ampcore.data.preparation.preprocessing import ColumnPlan, PreparedInputs
from ampcore.data.preparation.targets import Encoding, check_targets, find_encoding, join_columns
from ampcore.data.registry import LoadOptions
from ampcore.data.sources.file_examples import FileExamples, resident_if_small
from ampcore.data.summary import column_summary
from ampdata import ListedColumns, Source
from ampspec.data import row_split
from ampspec.data.data import Columns
from ampspec.data.target_columns import OUTPUT
from ampspec.errors import InvalidData

DEFAULT_SPLIT: Final = 0.2
"""The share for validation of data without a part of its own for it."""


def prepared_dataset(
    spec: Columns,
    options: LoadOptions,
    training: FileRows,
    held_out: FileRows | None,
    *,
    available: ListedColumns | None = None,
    resources: Any = None,
) -> Dataset:
    """The examples of some rows, with the layers that prepare them.

    Args:
        spec: The roles of the columns and their preprocessing.
        options: The task, and the memory for the examples.
        training: The training rows.
        held_out: Those for validation; None without them.
        available: What the data has besides what is read; None: all of it is read.
        resources: What must live as long as the rows.

    Raises:
        InvalidData: A value is not valid, or does not fit the task.
    """
    name, columns = training.name, training.source.columns
    roles = column_roles(spec, options.task, columns, name)
    split = (training, held_out)
    training = rows_with_targets(spec, roles, training, "for training")
    inputs = _prepared_inputs(training, column_plans(spec, roles, training))
    encodings = {
        output: find_encoding(
            kind,
            _target_values(training, roles.targets[output]),
            columns[roles.targets[output][0]],
            name,
            ", ".join(roles.targets[output]),
        )
        for output, kind in roles.kinds.items()
    }
    examples = FileExamples(training, inputs, roles.targets, encodings)
    train = resident_if_small(examples, options.memory_bytes)
    validation = None
    if held_out is not None:
        check_same_columns(columns, held_out.source.columns, roles, name)
        held_out = rows_with_targets(spec, roles, held_out, "for validation")
        _check_validation(held_out, inputs, roles, encodings)
        validation_examples = FileExamples(held_out, inputs, roles.targets, encodings)
        validation = resident_if_small(validation_examples, options.memory_bytes)
    return Dataset(
        train,
        validation,
        _signature(inputs, encodings),
        inputs,
        place_of=training.place_of(),
        summary=column_summary(
            training, held_out, roles, inputs.plans, encodings, split=split, available=available
        ),
        validation_rows=None if held_out is None else held_out.rows,
        read_raw_validation=None if held_out is None else partial(held_out.read, inputs.columns),
        split_seed=spec.split_seed if _is_drawn(spec, training, held_out) else None,
        resources=resources,
    )


def split_rows(spec: Columns, source: Source, name: str) -> tuple[FileRows, FileRows | None]:
    """The training rows, and those that are split off for validation.

    Raises:
        InvalidData: No training example is left.
    """
    share = DEFAULT_SPLIT if spec.validation_split is None else spec.validation_split
    seed = spec.split_seed if spec.validation_rows == "random" else None
    train, held_out = row_split.split_rows(source.rows, share, seed)
    if not len(train):
        raise InvalidData(
            name,
            "validation_split",
            expected="a share that leaves at least one training example",
            received=f"{share:g} of {source.rows} rows",
        )
    validation = FileRows(source, held_out, name) if len(held_out) else None
    return FileRows(source, train, name), validation


def _is_drawn(spec: Columns, training: FileRows, held_out: FileRows | None) -> bool:
    is_split = held_out is not None and held_out.source is training.source
    return is_split and spec.validation_rows == "random"


def all_rows(source: Source, name: str) -> FileRows:
    """Every row of a source."""
    return FileRows(source, np.arange(source.rows), name)


def _prepared_inputs(training: FileRows, plans: dict[str, list[ColumnPlan]]) -> PreparedInputs:
    by_column = {plan.name: plan for group in plans.values() for plan in group}

    def read(columns: list[str]) -> Iterator[Mapping[str, Array]]:
        for numbers, raw in training.chunks(columns):
            training.check_inputs(numbers, raw, by_column, {})
            yield raw

    return PreparedInputs(plans, read, training.name)


def _target_values(rows: FileRows, group: tuple[str, ...]) -> Iterator[tuple[Indices, Array]]:
    """The numbers and values of all rows of a target, whose columns are joined."""
    for numbers, raw in rows.chunks(group):
        yield numbers, join_columns([raw[column] for column in group])


def _check_validation(
    rows: FileRows, inputs: PreparedInputs, roles: Roles, encodings: Mapping[str, Encoding]
) -> None:
    """Raise InvalidData for a target or key that no training example has.

    Examples that are not kept in memory would show it only after the first epoch.
    """
    for output, encoding in encodings.items():
        group = roles.targets[output]
        check_targets(encoding, _target_values(rows, group), rows.name, ", ".join(group))
    if inputs.key_limits:
        for numbers, raw in rows.chunks(list(inputs.key_limits)):
            rows.check_inputs(numbers, raw, inputs.plans, inputs.key_limits)


def _signature(inputs: PreparedInputs, encodings: Mapping[str, Encoding]) -> Signature:
    first, spec = next(iter(inputs.specs.items()))
    shape = tuple(spec.shape)
    targets = dict(encodings) or {OUTPUT: Encoding("input", int(np.prod(shape)))}
    return Signature(
        shape,
        spec.dtype.name,
        next(iter(targets.values())).size,
        inputs.vocabulary[first],
        inputs=inputs.specs if len(inputs.specs) > 1 else {},
        given_targets=targets,
    )
