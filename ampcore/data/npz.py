"""Loads NumPy archives in the layout of Keras's mnist.npz: x_train, y_train, x_test, y_test."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ampcore.data.dataset import Dataset, Signature
from ampcore.data.files import open_data_file
from ampcore.data.registry import register
from ampcore.errors import InvalidData
from ampcore.spec.data import Npz

MAX_CLASSES = 100_000
PIXEL_MAX = np.float32(255)
Arrays = dict[str, NDArray[Any]]
Examples = NDArray[np.float32]
Labels = NDArray[np.int32]


@register("npz")
def npz(spec: Npz, seed: int, data_root: Path | None) -> Dataset:
    """The archive's examples; integers are treated as pixels and divided by 255.

    With `validation_split` 0 its own x_test and y_test are used for validation, if present;
    otherwise the last share of x_train is. Raises InvalidData.
    """
    arrays = _read(spec.path, data_root)
    x, y = _examples(spec.path, "x_train", arrays), _labels(spec.path, "train", arrays)
    classes = int(y.max()) + 1
    if spec.validation_split or "x_test" not in arrays:
        return Dataset.split(x, y, classes, spec.validation_split)
    x_val, y_val = _examples(spec.path, "x_test", arrays), _labels(spec.path, "test", arrays)
    _check_test_data(spec.path, x, x_val, y_val, classes)
    return Dataset.from_arrays(x, y, x_val, y_val, Signature(x.shape[1:], "float32", classes))


def _read(name: str, data_root: Path | None) -> Arrays:
    expected = "a NumPy .npz archive without pickled objects"
    with open_data_file(name, data_root) as stream:
        if not zipfile.is_zipfile(stream):
            raise InvalidData(name, None, expected=expected, received="a file of another kind")
        stream.seek(0)
        try:
            with np.load(stream, allow_pickle=False) as archive:
                return _members(name, archive)
        except (ValueError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
            raise InvalidData(name, None, expected=expected, received=str(error)) from None


def _members(name: str, archive: Any) -> Arrays:
    wanted = ["x_train", "y_train"]
    if "x_test" in archive or "y_test" in archive:
        wanted += ["x_test", "y_test"]
    for field in wanted:
        if field not in archive:
            held = ", ".join(archive.files) or "nothing"
            raise InvalidData(name, field, expected="an array of this name", received=held)
    return {field: archive[field] for field in wanted}


def _examples(name: str, field: str, arrays: Arrays) -> Examples:
    x = arrays[field]
    if x.ndim < 2 or x.size == 0:
        received = f"shape {list(x.shape)}"
        raise InvalidData(name, field, expected="examples [n, …], not empty", received=received)
    if x.dtype.kind in "iu":
        # Divided in float32 on the host: 16 bits could not hold every pixel value.
        return np.divide(x, PIXEL_MAX, dtype=np.float32)
    if x.dtype.kind not in "fb":
        raise InvalidData(name, field, expected="numbers", received=f"dtype {x.dtype}")
    with np.errstate(over="ignore"):
        values: Examples = x.astype(np.float32, copy=False)
    finite = np.isfinite(values)
    if not finite.all():
        place = tuple(int(axis) for axis in np.unravel_index(finite.argmin(), x.shape))
        received = f"{x[place]} at {list(place)}, {(~finite).sum()} non-finite in total"
        raise InvalidData(name, field, expected="values finite in float32", received=received)
    return values


def _labels(name: str, part: str, arrays: Arrays) -> Labels:
    field, count = f"y_{part}", len(arrays[f"x_{part}"])
    y = arrays[field]
    if y.shape not in ((count,), (count, 1)):
        expected = f"{count} labels, as many as x_{part} has examples"
        raise InvalidData(name, field, expected=expected, received=f"shape {list(y.shape)}")
    if y.dtype.kind not in "iu":
        raise InvalidData(name, field, expected="integers", received=f"dtype {y.dtype}")
    if y.min() < 0 or y.max() >= MAX_CLASSES:
        received = f"labels from {y.min()} to {y.max()}"
        raise InvalidData(
            name, field, expected=f"labels from 0 to {MAX_CLASSES - 1}", received=received
        )
    return y.reshape(count).astype(np.int32)


def _check_test_data(name: str, x: Examples, x_val: Examples, y_val: Labels, classes: int) -> None:
    if x.shape[1:] != x_val.shape[1:]:
        shapes = [f"shape {list(array.shape[1:])}" for array in (x, x_val)]
        expected = f"examples of {shapes[0]}, as in x_train"
        raise InvalidData(name, "x_test", expected=expected, received=shapes[1])
    if y_val.max() >= classes:
        expected = f"labels from 0 to {classes - 1}, those of y_train"
        raise InvalidData(name, "y_test", expected=expected, received=f"label {y_val.max()}")
