"""Which columns of the data are the targets of a task, decided by their names alone."""

from collections.abc import Iterable, Sequence
from typing import Final

from ampspec.data.data import Columns
from ampspec.objectives.task import Outputs, TaskSpec

OUTPUT: Final = "output"
"""The name of the only output of a task that names none."""
TARGET_NAMES: Final = ("y", "label", "labels", "mask", "target")
"""Columns that are targets by their names."""


def columns_named(names: Sequence[str], columns: Iterable[str]) -> list[str]:
    """The columns with these names, ignoring case: `x` also finds `X`."""
    columns_by_name: dict[str, str] = {}
    for column in columns:
        columns_by_name.setdefault(column.lower(), column)
        columns_by_name[column] = column
    return [columns_by_name[name] for name in names if name in columns_by_name]


def target_columns(
    data: Columns, task: TaskSpec | None, columns: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """The target columns of each output; the data may lack columns named by the spec.

    Args:
        data: Names the targets.
        task: None: one output, with classes.
        columns: The columns of the data.

    Returns:
        The columns by output; empty for a task that predicts its input. An output has no columns
        if the spec names none and the data has none with a usual name.
    """
    if isinstance(task, Outputs):
        targets = {output: (section.target or output,) for output, section in task.outputs.items()}
        return targets | dict(data.targets or {})
    if task is not None and task.target == "input":
        return {}
    return {OUTPUT: tuple(data.target or columns_named(TARGET_NAMES, columns)[:1])}
