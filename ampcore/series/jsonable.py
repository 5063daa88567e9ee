"""Numbers that JSON cannot write: NaN and the infinities become strings, everywhere the same."""

import math
from typing import Any, Final

import numpy as np

NON_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def storable(text: str) -> str:
    """The text without what UTF-8 (lone surrogates) or PostgreSQL (zero) cannot write."""
    return (
        text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{REPLACEMENT CHARACTER}")
    )


def finite_json(value: Any) -> Any:
    """`value` with non-finite numbers as their names, and strings that every database takes."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else _name(value)
    if isinstance(value, dict):
        return {storable(str(key)): finite_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite_json(item) for item in value]
    return value


def column_to_json(column: np.ndarray[Any, Any]) -> list[Any]:
    """One column as a list for JSON; float32 values keep their shortest decimal form."""
    if column.dtype.kind != "f":
        return list(column.tolist())
    # A float32 widened to float64 would print digits that were never measured.
    values = [float(text) for text in column.astype(str)] if column.dtype == np.float32 else column
    finite = np.isfinite(column)
    if finite.all():
        return list(values)
    return [v if ok else _name(v) for v, ok in zip(values, finite, strict=True)]


def column_from_json(values: list[Any]) -> list[Any]:
    """The numbers that `column_to_json` wrote."""
    return [NON_FINITE[value] if isinstance(value, str) else value for value in values]


def _name(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
