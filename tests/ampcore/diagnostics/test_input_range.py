"""Inputs far from unit range, in 16-bit policies."""

import numpy as np
import pytest

from ampcore import models
from ampcore.data import ArrayExamples, Batch, Signature
from ampcore.diagnostics.input_range import input_range_finding
from ampcore.precision import layer_policies
from ampcore.spec.model import Mlp
from ampcore.spec.precision import Precision

PIXELS = np.full((4, 3), 255.0, np.float32)


def finding(x, policy):
    policies = layer_policies(Precision(policy=policy))
    models.build(Mlp(), Signature((3,), "float32", 2), policies)
    return input_range_finding(ArrayExamples(Batch(x, np.zeros(len(x), np.int32))), policies)


@pytest.mark.parametrize(
    "x", [PIXELS, {"a": PIXELS / 255, "b": -PIXELS}, [PIXELS / 255, np.full((4, 2, 2), 255.0)]]
)
def test_pixels_are_a_warning_in_16_bits(x):
    policies = layer_policies(Precision(policy="mixed_float16"))
    models.build(Mlp(), Signature((3,), "float32", 2), policies)
    found = input_range_finding(ArrayExamples(Batch(x, np.zeros(4))), policies)
    assert (found.code, found.severity) == ("inputs_far_from_unit_range", "warning")
    assert "reach 255" in found.message


@pytest.mark.parametrize(
    ("x", "policy"),
    [
        (PIXELS, "float32"),
        (PIXELS / 255, "mixed_float16"),
        (np.full((4, 3), 9000, np.int32), "mixed_float16"),
    ],
)
def test_nothing_is_said_of_float32_unit_range_or_keys(x, policy):
    assert finding(x, policy) is None
