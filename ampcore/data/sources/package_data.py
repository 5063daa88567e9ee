"""The datasets of packages that the operator has installed on the worker."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ampcore import plugins as packages
from ampcore.allocation_errors import out_of_memory
from ampcore.data.dataset import Dataset
from ampcore.data.registry import LoadOptions, register
from ampcore.data.sources.column_data import all_rows, prepared_dataset, split_rows
from ampdata.arrays.array_source import ArraySource, column_dtype
from ampdata.column_names import check_column_names
from ampdata.limits import Limits
from ampdata.place import Place
from ampdata.source import Column, Split
from ampdata.split_names import split_arrays
from ampspec.data.data import PackageData
from ampspec.errors import InvalidData, TrainingError

Arrays = dict[str, NDArray[Any]]
NAMES = {2: ("x", "y"), 4: ("x_train", "y_train", "x_validation", "y_validation")}
"""By their number, the names of arrays that are returned without any."""


@register("package")
def package_data(spec: PackageData, options: LoadOptions) -> Dataset:
    """The arrays that the package's function returns, as those of an .npz.

    Raises:
        InvalidModel: The dataset is not installed, or its options are not valid.
        InvalidData: The function fails, or its arrays are no examples for the task.
    """
    package, own_options = packages.find(spec)
    try:
        returned = package.build(own_options, spec.split_seed)
    except TrainingError:
        raise
    except Exception as error:
        if out_of_memory(error) is not None:
            raise
        raise InvalidData(
            spec.label, None, expected="arrays", received=f"{type(error).__name__}: {error}"
        ) from error
    parts = _by_split(_arrays_by_name(returned, spec.label), spec.label)
    sources = {split: _source(arrays, spec.label) for split, arrays in parts.items()}
    held_out = sources.get("validation") or sources.get("test")
    if held_out is None or spec.validation_split:
        rows = split_rows(spec, sources["train"], spec.label)
    else:
        rows = all_rows(sources["train"], spec.label), all_rows(held_out, spec.label)
    return prepared_dataset(spec, options, *rows)


def _arrays_by_name(returned: Any, label: str) -> Arrays:
    """The arrays by name."""
    if isinstance(returned, tuple) and len(returned) in NAMES:
        returned = dict(zip(NAMES[len(returned)], returned, strict=True))
    if not isinstance(returned, Mapping) or not returned:
        raise InvalidData(
            label,
            None,
            expected="(x, y), (x, y, x_validation, y_validation), or arrays by name",
            received=_kind_of(returned),
        )
    check_column_names(Place(label), [str(name) for name in returned], Limits())
    arrays: Arrays = {}
    for name, array in returned.items():
        if not isinstance(array, np.ndarray) or array.ndim == 0:
            received = "one number" if isinstance(array, np.ndarray) else type(array).__name__
            raise InvalidData(
                label, str(name), expected="a NumPy array of examples", received=received
            )
        if column_dtype(array.dtype) is None:
            raise InvalidData(
                label,
                str(name),
                expected="numbers, or text with a dtype of NumPy",
                received=f"dtype {array.dtype}",
            )
        arrays[str(name)] = array
    return arrays


def _kind_of(returned: Any) -> str:
    if isinstance(returned, tuple):
        return f"a tuple of {len(returned)}"
    return "no arrays" if isinstance(returned, Mapping) else type(returned).__name__


def _by_split(arrays: Arrays, label: str) -> dict[Split, Arrays]:
    """The arrays by split and column; without splits in names, all are training examples."""
    parts = split_arrays(Place(label), arrays, {}).parts
    by_split = {
        split or "train": {column: arrays[name] for column, name in part.items()}
        for split, part in parts.items()
    }
    return by_split if "train" in by_split else {"train": arrays}


def _source(arrays: Arrays, label: str) -> ArraySource:
    rows = len(next(iter(arrays.values())))
    if not rows:
        raise InvalidData(label, next(iter(arrays)), expected="at least one row", received="none")
    columns = {}
    for name, array in arrays.items():
        if len(array) != rows:
            expected = f"{rows} rows, as many as {next(iter(arrays))}"
            raise InvalidData(label, name, expected=expected, received=str(len(array)))
        dtype = column_dtype(array.dtype)
        if dtype is not None:
            columns[name] = Column(array.shape[1:], dtype)
    return ArraySource(label, columns, arrays)
