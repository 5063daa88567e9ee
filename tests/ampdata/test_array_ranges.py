"""A description has the range of the numbers in arrays."""

import numpy as np

from ampdata.description import describe


def ranges_of(path, **arrays):
    np.savez(path / "data.npz", **arrays)
    return {
        column.name: column.range and (column.range.low, column.range.high, column.range.is_whole)
        for column in describe(path / "data.npz").columns
    }


def test_arrays_have_the_range_of_their_finite_numbers(tmp_path):
    floats = np.linspace(-2, 3, 40).reshape(10, 4)
    floats[0, 1], floats[3, 2] = np.nan, np.inf
    keys = np.arange(40).reshape(10, 2, 2)
    labels = np.eye(10)
    ranges = ranges_of(tmp_path, x=floats, keys=keys, labels=labels, y=np.arange(10))
    assert ranges == {
        "x": (-2.0, 3.0, False),
        "keys": (0.0, 39.0, True),
        "labels": (0.0, 1.0, True),
        "y": None,  # a single value, which has statistics
    }


def test_an_array_without_finite_numbers_has_no_range(tmp_path):
    assert ranges_of(tmp_path, x=np.full((3, 2), np.nan), y=np.arange(3)) == {"x": None, "y": None}
