"""Makes a Batch of the arrays that people give: NumPy, TensorFlow, pandas, lists of numbers."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.data.examples import Batch, Structure
from ampspec.errors import InvalidData

PARTS: Final = ("x", "y", "sample_weight")


def as_batch(data: Any, source: str) -> Batch:
    """The inputs, targets and sample weights in `data`.

    Args:
        data: (x, y), (x, y, sample_weight), or x alone, whose targets are the inputs themselves.
            Each is an array, or a dictionary, list or tuple of arrays. Floats become float32.
        source: The name of the data in errors.

    Raises:
        InvalidData: An array is empty, holds no numbers, or has another number of rows.
    """
    if isinstance(data, tuple):
        if not 1 <= len(data) <= len(PARTS):
            received = f"a tuple of {len(data)}"
            raise InvalidData(
                source, None, expected="(x, y) or (x, y, sample_weight)", received=received
            )
        parts = {name: part for name, part in zip(PARTS, data, strict=False) if part is not None}
    else:
        parts = {"x": data}
    converted = {name: _convert(part, source, name) for name, part in parts.items()}
    batch = Batch(converted["x"], converted.get("y", ()), converted.get("sample_weight", ()))
    _check_rows(batch, source)
    return batch


def _convert(part: Any, source: str, field: str) -> Structure:
    if isinstance(part, Mapping):
        return {name: _convert(value, source, f"{field}[{name!r}]") for name, value in part.items()}
    if isinstance(part, tuple) or (isinstance(part, list) and part and not _is_number(part[0])):
        return [_convert(value, source, f"{field}[{i}]") for i, value in enumerate(part)]
    return _array(part, source, field)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | bool | np.number)


def _array(part: Any, source: str, field: str) -> NDArray[Any]:
    if hasattr(part, "to_numpy") and hasattr(part, "columns"):
        part = _frame(part, source, field)
    array = np.asarray(part.numpy() if tf.is_tensor(part) else part)
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise InvalidData(
            source,
            field,
            expected="numbers; encode text and categories as integers first",
            received=f"dtype {array.dtype}",
        )
    if array.ndim == 0:
        raise InvalidData(source, field, expected="an array of examples", received="one number")
    return array


def _frame(frame: Any, source: str, field: str) -> Any:
    """A pandas frame as one array: mixed columns of numbers, booleans and nullables as float32."""
    if frame.to_numpy().dtype.kind in "biuf":
        return frame
    columns = []
    for name in frame.columns:
        try:
            columns.append(frame[name].to_numpy(dtype=np.float32, na_value=np.nan))
        except (TypeError, ValueError):
            raise InvalidData(
                source,
                f"{field}[{name!r}]",
                expected="a column of numbers; encode text and categories as integers first",
                received=f"dtype {frame[name].dtype}",
            ) from None
    return np.stack(columns, axis=1)


def _check_rows(batch: Batch, source: str) -> None:
    named_parts = [
        (name, part)
        for name, value in zip(PARTS, batch, strict=True)
        for part in tf.nest.flatten(value)
    ]
    rows = len(named_parts[0][1])
    if not rows:
        raise InvalidData(source, "x", expected="at least one example", received="none")
    for name, part in named_parts:
        if len(part) != rows:
            expected = f"{rows} rows, as many as the first input has"
            raise InvalidData(source, name, expected=expected, received=str(len(part)))
