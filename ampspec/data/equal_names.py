"""Fills in the columns of a model's inputs that a spec leaves out: those of the same names."""

from collections.abc import Mapping
from typing import Any, Final

KINDS: Final = ("npz", "npy", "csv", "parquet", "images", "tfrecord", "package")
"""The kinds of data with columns."""


def with_equal_names(model: Any, data: Any) -> Any:
    """The data section of a document, with a column for each input of a model with several ones.

    Args:
        model: The model section, perhaps invalid; other kinds than `layers` do not name inputs.
        data: The data section, perhaps invalid. Inputs that it names keep their columns.
    """
    names = model.get("inputs") if isinstance(model, Mapping) else None
    if not isinstance(names, Mapping) or len(names) < 2 or model.get("kind") != "layers":
        return data
    if not isinstance(data, Mapping) or data.get("kind") not in KINDS:
        return data
    columns = data.get("inputs")
    if columns is not None and not isinstance(columns, Mapping):
        return data
    return {**data, "inputs": {name: name for name in names} | dict(columns or {})}
