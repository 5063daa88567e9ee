"""Summarizes the data of a run: rows, columns and classes, as they were decided for it."""

from collections.abc import Mapping
from itertools import islice
from typing import Final

import numpy as np

from ampcore.data.dataset import Dataset
from ampcore.data.preparation.column_roles import Roles
from ampcore.data.preparation.file_rows import FileRows
from ampcore.data.preparation.preprocessing import ColumnPlan
from ampcore.data.preparation.targets import Encoding
from ampdata import Column, ListedColumns
from ampspec.api.data_summary import (
    MAX_LISTED,
    MAX_NAME,
    ClassSummary,
    ColumnSummary,
    DataSummary,
    LeftOutSummary,
    TargetSummary,
    ValidationRows,
)

WIDE_DTYPES: Final = ("int32", "int64", "float64")
"""They have numbers that float32 does not tell apart."""
MIN_COLLAPSED: Final = 0.01
"""As a part of the different values; fewer are rounding."""


def column_summary(
    training: FileRows,
    held_out: FileRows | None,
    roles: Roles,
    plans: Mapping[str, ColumnPlan],
    encodings: Mapping[str, Encoding],
    *,
    split: tuple[FileRows, FileRows | None],
    available: ListedColumns | None = None,
) -> DataSummary:
    """The summary of data with columns.

    Args:
        training: The training rows.
        held_out: The rows for validation.
        roles: Which columns are inputs and targets.
        plans: By input column, how it is prepared.
        encodings: By output, how its targets are encoded.
        split: Both with the rows that are left out.
        available: What the data has besides what is read; None: what the training rows have.
    """
    source = training.source
    unread = available.columns if available is not None else {}
    columns = _columns({**unread, **source.columns}, roles, plans)
    left_out = list(source.left_out)
    left_out += [part for part in (available.left_out if available else ()) if part not in left_out]
    return DataSummary(
        train=len(training),
        validation=_count(held_out),
        validation_rows=_origin(*split),
        train_left_out=len(split[0]) - len(training),
        validation_left_out=_count(split[1]) - _count(held_out),
        columns=columns[:MAX_LISTED],
        column_count=len(columns),
        targets={output: _target(encoding) for output, encoding in encodings.items()},
        left_out=[
            LeftOutSummary(name=part.name[:MAX_NAME], reason=part.reason[:MAX_NAME])
            for part in left_out[:MAX_LISTED]
        ],
        left_out_count=len(left_out),
        collapsed=dict(islice(_collapsed(training, roles, plans).items(), MAX_LISTED)),
    )


def data_summary(dataset: Dataset) -> DataSummary:
    """The summary of any data."""
    if dataset.summary is not None:
        return dataset.summary.model_copy(update={"split_seed": dataset.split_seed})
    validation = len(dataset.validation) if dataset.validation is not None else 0
    targets = dataset.signature.targets if dataset.signature is not None else {}
    return DataSummary(
        train=len(dataset.train),
        validation=validation,
        validation_rows="given" if validation else "none",
        split_seed=dataset.split_seed,
        targets={output: _target(encoding) for output, encoding in targets.items()},
    )


def _count(rows: FileRows | None) -> int:
    return 0 if rows is None else len(rows)


def _origin(training: FileRows, held_out: FileRows | None) -> ValidationRows:
    if held_out is None:
        return "none"
    if held_out.source is not training.source:
        return "own_part"
    return "last" if training.rows[-1] < held_out.rows[0] else "random"


def _columns(
    columns: Mapping[str, Column], roles: Roles, plans: Mapping[str, ColumnPlan]
) -> list[ColumnSummary]:
    """Those that are used come first."""
    targets = dict.fromkeys(column for group in roles.targets.values() for column in group)
    preparations = {name: plan.preparation for name, plan in plans.items()}
    unused = [name for name in columns if name not in plans and name not in targets]
    return [
        ColumnSummary(
            name=name[:MAX_NAME],
            role=role,
            dtype=columns[name].dtype,
            preparation=preparations.get(name, "") if role == "input" else "",
        )
        for role, names in (("input", plans), ("target", targets), ("left_out", unused))
        for name in names
    ]


def _target(encoding: Encoding) -> TargetSummary:
    names = encoding.names
    if names is None and encoding.examples is not None:
        names = tuple(map(str, range(encoding.size)))
    counts = encoding.examples or (None,) * encoding.size
    return TargetSummary(
        kind=encoding.kind,
        size=encoding.size,
        classes=[
            ClassSummary(name=name[:MAX_NAME], examples=count)
            for name, count in islice(zip(names or (), counts, strict=False), MAX_LISTED)
        ],
    )


def _collapsed(training: FileRows, roles: Roles, plans: Mapping[str, ColumnPlan]) -> dict[str, int]:
    """The different values of the first rows that become equal in float32, by column."""
    columns = [name for name, plan in plans.items() if plan.is_cast_to_float32]
    for output, group in roles.targets.items():
        columns += [name for name in group if roles.kinds[output] == "numbers"]
    columns = [name for name in columns if training.source.columns[name].dtype in WIDE_DTYPES]
    collapsed = {}
    for _, rows in islice(training.chunks(columns), 1 if columns else 0):
        for name, values in rows.items():
            different = np.unique(values)
            lost = len(different) - len(np.unique(different.astype(np.float32)))
            if lost > MIN_COLLAPSED * len(different):
                collapsed[name[:MAX_NAME]] = lost
    return collapsed
