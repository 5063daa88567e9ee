import json
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ampspec.telemetry.json_values import column_from_json, column_to_json, json_safe


def round_trip(value):
    """The value after a round trip through strict JSON, which has no NaN and no infinities."""
    return json.loads(json.dumps(value, allow_nan=False))


def test_numbers_that_json_cannot_write_get_names_at_any_depth():
    value = {"a": [math.nan, {"b": (math.inf, -math.inf, 1.5)}], "c": "NaN", "d": None, "e": 7}
    named = {"a": ["NaN", {"b": ["Infinity", "-Infinity", 1.5]}], "c": "NaN", "d": None, "e": 7}
    assert round_trip(json_safe(value)) == named


@given(arrays.arrays(np.float32, st.integers(0, 30)))
def test_every_float32_survives_a_round_trip(column):
    back = column_from_json(round_trip(column_to_json(column)))
    np.testing.assert_array_equal(np.array(back, np.float32), column)


def test_float32_keeps_its_shortest_decimal_form():
    assert json.dumps(column_to_json(np.array([0.1, 1e-8], np.float32))) == "[0.1, 1e-08]"


def test_other_columns_are_plain_values():
    assert column_to_json(np.array([True, False])) == [True, False]
    assert column_to_json(np.array([1, 2], np.int32)) == [1, 2]
    assert round_trip(column_to_json(np.array([0.5, np.nan]))) == [0.5, "NaN"]
