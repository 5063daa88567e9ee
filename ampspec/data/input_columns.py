"""Which columns of the data are the inputs of the model, decided by names and shapes alone."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from ampspec.data.data import Columns, Csv, Parquet, Tfrecord
from ampspec.data.target_columns import columns_named

INPUT_NAMES: Final = ("x", "image", "images")
"""Columns that are inputs by their names."""
CONCATENATED: Final = "features"
"""The name of the input into which several columns are concatenated."""


def input_columns(
    data: Columns, targets: Collection[str], columns: Mapping[str, Any]
) -> dict[str, tuple[str, ...]]:
    """The columns of each input; the data may lack columns named by the spec.

    Args:
        data: Names the inputs; if it names none, all columns except the targets form one input.
        targets: The columns that are targets.
        columns: The columns of the data, each with a `shape` and a `dtype`.
    """
    if data.inputs is not None:
        return {name: tuple(group) for name, group in data.inputs.items()}
    usual_names = [
        column
        for column in columns_named(INPUT_NAMES, columns)
        if column not in targets and not _is_cell(data, columns[column])
    ]
    group = tuple(usual_names[:1] or [column for column in columns if column not in targets])
    return {group[0] if len(group) == 1 else CONCATENATED: group}


def _is_cell(data: Columns, column: Any) -> bool:
    """Whether it is a plain column of a table, even if it is called `x`."""
    return isinstance(data, Csv | Parquet | Tfrecord) and not (
        column.shape or column.dtype == "image"
    )
