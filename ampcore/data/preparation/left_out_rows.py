"""Leaves out the rows without a target, as `missing_targets: leave_out` of a spec says."""

from dataclasses import replace

import numpy as np

from ampcore.data.preparation.column_roles import Roles
from ampcore.data.preparation.file_rows import Array, FileRows
from ampspec.data.data import Columns
from ampspec.errors import InvalidData


def rows_with_targets(spec: Columns, roles: Roles, rows: FileRows, purpose: str) -> FileRows:
    """The rows that have all of their targets, if the spec says so, else all rows.

    Args:
        spec: The data section.
        roles: Which columns are targets.
        rows: The training rows, or those for validation.
        purpose: What they are for, in errors.

    Raises:
        InvalidData: No row has a target, or an input that may not be missing is missing.
    """
    columns = list(dict.fromkeys(column for group in roles.targets.values() for column in group))
    if spec.missing_targets != "leave_out" or not columns:
        return rows
    parts = [
        numbers[~np.any([_is_missing(values) for values in raw.values()], axis=0)]
        for numbers, raw in rows.chunks(columns)
    ]
    complete = replace(rows, rows=np.concatenate(parts))
    if not len(complete):
        raise InvalidData(
            rows.name,
            ", ".join(columns),
            expected=f"a target in at least one row {purpose}",
            received=f"none in {len(rows)} rows",
        )
    if getattr(spec, "missing", "keep") == "error":
        _check_inputs(complete, roles)
    return complete


def _is_missing(values: Array) -> Array:
    """Which rows of a column have no value, or only some of the values of an array."""
    if values.dtype == object:
        missing = np.array([value is None for value in values.flat], bool).reshape(values.shape)
    elif values.dtype.kind == "f":
        missing = np.isnan(values)
    else:
        missing = np.zeros(values.shape, bool)
    return np.asarray(missing.reshape(len(values), -1).any(axis=1))


def _check_inputs(rows: FileRows, roles: Roles) -> None:
    """Raise InvalidData for a missing input: the file was read with all that may be missing."""
    columns = dict.fromkeys(column for group in roles.inputs.values() for column in group)
    for column in columns:
        if not rows.source.columns[column].missing:
            continue
        for numbers, raw in rows.chunks([column]):
            missing = _is_missing(raw[column])
            if missing.any():
                raise InvalidData(
                    rows.name,
                    f"row {numbers[int(missing.argmax())] + 1}, column {column}",
                    expected="a value, or `missing: keep`",
                    received="no value",
                )
