"""Arrays and frames that a program gives: what `fit` takes is taken."""

import numpy as np
import pandas as pd
import pytest

from ampcore.data.local import local_dataset
from ampspec.errors import InvalidData

X = np.linspace(0, 1, 24, dtype=np.float32).reshape(8, 3)
Y = np.arange(8) % 3


@pytest.mark.parametrize(
    ("y", "validation"),
    [
        (Y, (X[:4], Y[:4].astype("uint8")[:, None])),
        (Y, (X[:4], Y[:4].astype("int32"))),
        (Y, ((X[:4] > 0.5).astype("uint8"), Y[:4])),
        (Y[:, None], (X[:4], Y[:4])),
        (Y, (np.where(X[:4] < 0.2, np.nan, X[:4]).astype("float64"), Y[:4])),
    ],
)
def test_validation_arrays_get_the_dtypes_and_axes_of_the_training(y, validation):
    made = local_dataset((X, y), validation_data=validation)
    arrays = made.validation.arrays
    assert (arrays.x.dtype, arrays.y.dtype) == (X.dtype, y.dtype)
    assert (arrays.x.shape[1:], arrays.y.shape[1:]) == (X.shape[1:], y.shape[1:])
    np.testing.assert_array_equal(arrays.x, validation[0])
    np.testing.assert_array_equal(arrays.y.ravel(), validation[1].ravel())


@pytest.mark.parametrize(
    "validation",
    [
        (X[:4], Y[:4] + 0.5),  # no integers
        (X[:4], np.stack([Y[:4]] * 2, axis=1)),
        (X[:4, :2], Y[:4]),
        (X[:4], np.array([0, 1, np.nan, 2])),
    ],
)
def test_validation_arrays_that_would_change_are_refused(validation):
    with pytest.raises(InvalidData, match="examples as in data"):
        local_dataset((X, Y), validation_data=validation)


def test_columns_of_numbers_of_different_kinds_become_float32():
    city = ["Ulm", "Bonn"] * 4
    frame = pd.DataFrame(
        {
            "size": X[:, 0].astype(float),
            "rooms": pd.array([1, None] * 4, dtype="Int64"),
            "is_new": [True, False] * 4,
        }
    )
    frame = frame.join(pd.get_dummies(pd.Series(city, name="city")))
    arrays = local_dataset((frame, Y)).train.arrays
    assert arrays.x.dtype == np.float32
    np.testing.assert_array_equal(arrays.x[:, 1], [1, np.nan] * 4)
    np.testing.assert_array_equal(arrays.x[:, 2:], [[1, 0, 1], [0, 1, 0]] * 4)


def test_a_column_of_text_is_named():
    frame = pd.DataFrame({"size": [1.0, 2.0], "city": ["Ulm", "Bonn"]})
    with pytest.raises(InvalidData, match=r"x\['city'\]: expected a column of numbers"):
        local_dataset((frame, np.zeros(2)))
