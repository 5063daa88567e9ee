"""Writes and reads `validation_examples.npy`: the row and the metrics of each validation example.

A table of one NumPy array, so that `pandas.DataFrame(numpy.load(file))` has its columns: `row`,
counted from 1 as in messages, and the metrics of the trained model by name.
"""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

VALIDATION_EXAMPLES_FILE: Final = "validation_examples.npy"
ROW: Final = "row"
MAX_EXAMPLES: Final = 10_000_000
"""Of more examples no table is written."""

Array = NDArray[Any]


def write_examples(folder: Path, rows: Array, metrics: Mapping[str, Array]) -> Path:
    """Write the table; returns its file.

    Args:
        folder: Created if it does not exist.
        rows: The row of each example in the data, from 0, (n,).
        metrics: By name, the value of each example, (n,).
    """
    table = np.empty(len(rows), [(ROW, "<i8"), *((name, "<f4") for name in metrics)])
    table[ROW] = rows + 1
    for name, values in metrics.items():
        table[name] = values
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / VALIDATION_EXAMPLES_FILE
    partial = file.with_suffix(".partial")
    with partial.open("wb") as stream:
        np.save(stream, table, allow_pickle=False)
    return partial.replace(file)


def read_examples(content: bytes) -> tuple[Array, dict[str, Array]]:
    """The rows, counted from 1, and the metrics by name of a table, which may be untrusted.

    Raises:
        ValueError: It is not such a table.
    """
    stream = io.BytesIO(content)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("Expected a file of the NumPy format 1.0.")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    names = dtype.names
    if not names or dtype.hasobject or names[0] != ROW or dtype[ROW] != np.dtype("<i8"):
        raise ValueError("Expected a table of validation examples.")
    # Not np.load, which would reserve the memory for any shape that the header claims.
    table = np.frombuffer(content, dtype, offset=stream.tell())
    if shape != table.shape:
        raise ValueError(f"Expected {shape} rows. Received: {table.shape}")
    metrics = {name: table[name] for name in names[1:] if table.dtype[name] == np.dtype("<f4")}
    return table[ROW], metrics
