"""JSON forms of values that JSON cannot hold: NaN and the infinities become strings."""

import math
from typing import Any, Final

import numpy as np

from ampspec.telemetry.steps.missing import MISSING, is_missing

NON_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def storable_text(text: str) -> str:
    """The text without lone surrogates and zeros, which UTF-8 and PostgreSQL cannot store."""
    return (
        text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{REPLACEMENT CHARACTER}")
    )


def json_safe(value: Any) -> Any:
    """`value` with non-finite numbers as strings, and strings that every database stores."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else _non_finite_name(value)
    if isinstance(value, dict):
        return {storable_text(str(key)): json_safe(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(item) for item in value]
    return value


def column_to_json(column: np.ndarray[Any, Any]) -> list[Any]:
    """One column as a list for JSON; float32 values keep their shortest decimal form.

    NaN and the infinities are strings, and an empty cell is None.
    """
    if column.dtype.kind != "f":
        return list(column.tolist())
    # A float32 widened to float64 would print digits that were never measured.
    values = [float(text) for text in column.astype(str)] if column.dtype == np.float32 else column
    finite = np.isfinite(column)
    if finite.all():
        return list(values)
    cells = zip(values, finite, is_missing(column), strict=True)
    return [v if ok else None if empty else _non_finite_name(v) for v, ok, empty in cells]


def column_from_json(values: list[Any]) -> list[Any]:
    """The numbers that `column_to_json` wrote; an empty cell is MISSING."""
    return [
        MISSING if value is None else NON_FINITE[value] if isinstance(value, str) else value
        for value in values
    ]


def _non_finite_name(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
