import importlib.util
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ampspec.telemetry.steps.arrow_arrays import to_arrow, to_numpy

DTYPES = (
    arrays.boolean_dtypes()
    | arrays.integer_dtypes(endianness="=")
    | arrays.unsigned_integer_dtypes(endianness="=")
    | arrays.floating_dtypes(endianness="=", sizes=(16, 32, 64))
)
NUMBERS = DTYPES.flatmap(lambda dtype: arrays.arrays(dtype, st.integers(0, 40)))
PARTS = st.slices(40)


@given(NUMBERS, PARTS)
def test_the_arrow_array_is_the_one_that_pyarrow_makes(values, part):
    values = values[part]  # a step other than 1 is not contiguous
    converted, expected = to_arrow(values), pa.array(values, from_pandas=False)
    converted.validate(full=True)
    assert converted.type == expected.type
    assert converted.null_count == expected.null_count == 0
    np.testing.assert_array_equal(converted.to_numpy(zero_copy_only=False), values)


@given(NUMBERS, st.integers(0, 40))
def test_the_numpy_array_is_the_one_that_pyarrow_makes(values, begin):
    array = pa.array(values, from_pandas=False).slice(min(begin, len(values)))
    converted, expected = to_numpy(array), array.to_numpy(zero_copy_only=False)
    assert converted.dtype == expected.dtype
    assert converted.tobytes() == expected.tobytes()


def test_numbers_are_not_copied():
    values = np.arange(9, dtype=np.float32)
    assert np.shares_memory(values, to_numpy(to_arrow(values)))


@pytest.mark.parametrize(
    "values",
    [
        np.array(["a"]),
        np.array([None]),
        np.array([1], ">i4"),
        np.array([1], "datetime64[s]"),
        np.zeros((2, 2)),
    ],
    ids=str,
)
def test_other_numpy_arrays_are_refused(values):
    with pytest.raises(TypeError, match="expected a one-dimensional array of numbers"):
        to_arrow(values)


def test_other_arrow_arrays_are_refused():
    with pytest.raises(ValueError, match="of numbers, received one of string"):
        to_numpy(pa.array(["a"]))
    with pytest.raises(ValueError, match="without nulls, received 1"):
        to_numpy(pa.array([1, None]))


def test_encoding_and_decoding_steps_does_not_import_pandas():
    """pandas is installed here, and pyarrow would import it."""
    script = """
import sys
import numpy as np
from ampspec.telemetry import StepBlock
from ampspec.telemetry.steps.codec import decode, encode
from server.telemetry.arrow import arrow_stream, parquet
from server.telemetry.text_formats import csv

block = StepBlock(0, {"loss": np.ones(3, np.float32), "skipped": np.array([True, False, True])})
assert decode(encode(block)) == block
table = {"step": block["step"], "loss": block["loss"], "skipped": block["skipped"]}
for form in (arrow_stream, parquet, csv):
    assert b"".join(form([table]))
assert block.to_arrow().num_rows == 3
print("pandas" in sys.modules)
"""
    assert importlib.util.find_spec("pandas")
    done = subprocess.check_output([sys.executable, "-c", script], text=True)
    assert done == "False\n"
