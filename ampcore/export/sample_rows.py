"""Rows with which converted models are compared: of the data, or drawn for the signature."""

from collections.abc import Mapping, Sequence, Sized
from typing import Any, Final

import numpy as np

from ampcore.data import Dataset
from ampcore.export.named_model import NamedModel

ROWS: Final = 32
TEXTS: Final = ("", "a", "word", "Größe")
ANY_SIZE: Final = 16
"""The size of an axis that may have any."""


def sample_rows(
    dataset: Dataset, named_model: NamedModel
) -> tuple[dict[str, np.ndarray[Any, Any]], str]:
    """At most ROWS rows by column, and where they are from.

    With preprocessing in front, the model takes raw columns, which the data no longer has: values
    are drawn for them.
    """
    arrays = _rows_of(dataset, named_model.columns) if dataset.prepared is None else None
    if arrays is None:
        return drawn_rows(named_model), f"{ROWS} rows drawn for the signature"
    return arrays, f"{len(next(iter(arrays.values())))} rows of the data"


def drawn_rows(named_model: NamedModel) -> dict[str, np.ndarray[Any, Any]]:
    """Values of the dtypes and shapes of the inputs, the same in each call."""
    generator = np.random.default_rng(0)
    arrays = {}
    for column, tensor in zip(named_model.columns, named_model.model.inputs, strict=True):
        shape = (ROWS, *(size or ANY_SIZE for size in tensor.shape[1:]))
        dtype = str(tensor.dtype)
        if dtype == "string":
            arrays[column] = np.resize(np.asarray(TEXTS, object), shape)
        elif dtype.startswith(("int", "uint", "bool")):
            arrays[column] = generator.integers(0, 2, shape).astype(dtype)
        else:
            arrays[column] = generator.standard_normal(shape).astype(dtype)
    return arrays


def _rows_of(dataset: Dataset, columns: Sequence[str]) -> dict[str, np.ndarray[Any, Any]] | None:
    """Validation rows of each input, else training rows; None if they can only be read in turn."""
    examples: Any = dataset.validation if dataset.validation is not None else dataset.train
    if not isinstance(examples, Sized) or not hasattr(examples, "read") or not len(examples):
        return None
    inputs = examples.read(np.arange(min(ROWS, len(examples)))).x
    if isinstance(inputs, Mapping):
        by_column = dict(inputs)
    else:
        parts = inputs if isinstance(inputs, list | tuple) else [inputs]
        by_column = dict(zip(columns, parts, strict=False))
    if set(by_column) != set(columns):
        return None
    return {column: np.asarray(by_column[column]) for column in columns}
