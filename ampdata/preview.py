"""The first rows of a source as JSON values."""

import math
from typing import Any, Final, cast

import numpy as np
from pydantic import JsonValue

from ampdata.source import Column, Source

MAX_VALUES: Final = 16
"""Larger arrays are shown as their dtype and shape."""
MAX_CHARACTERS: Final = 200


def preview_rows(source: Source, rows: int, columns: int) -> list[dict[str, JsonValue]]:
    """The first rows, with at most `columns` columns; each value is short."""
    names = list(source.columns)[:columns]
    read = [name for name in names if _is_shown(source.columns[name])]
    values = source.read(np.arange(min(rows, source.rows)), read)
    return [
        {
            name: _json_value(values[name][row], source.columns[name])
            if name in values
            else _summary(source, name, row)
            for name in names
        }
        for row in range(min(rows, source.rows))
    ]


def _is_shown(column: Column) -> bool:
    return column.dtype != "image" and (math.prod(column.shape) <= MAX_VALUES or _is_text(column))


def _is_text(column: Column) -> bool:
    """Whether values are the indices of characters."""
    classes = column.classes or ()
    return len(column.shape) == 1 and bool(classes) and all(len(label) == 1 for label in classes)


def _summary(source: Source, name: str, row: int) -> str:
    """The name of an image, or the dtype and shape of a large array."""
    column = source.columns[name]
    if column.dtype == "image":
        return source.image_name(name, row)
    return f"{column.dtype} {' × '.join(map(str, column.shape))}"


def _json_value(value: Any, column: Column) -> JsonValue:
    if isinstance(value, np.ndarray) and column.classes is not None and _is_text(column):
        return "".join(column.classes[index] for index in value[:MAX_CHARACTERS].tolist())
    if isinstance(value, np.ndarray):
        return [_json_value(item, column) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return value if len(value) <= MAX_CHARACTERS else f"{value[:MAX_CHARACTERS]}…"
    if isinstance(value, float) and not math.isfinite(value):
        if column.missing and math.isnan(value):
            return None
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if column.classes is not None and 0 <= value < len(column.classes):
        return str(column.classes[value])
    return cast(JsonValue, value)
