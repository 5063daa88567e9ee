"""Inputs far from unit range in 16-bit policies, and examples far from all others."""

import numpy as np
import pytest

from ampcore import models
from ampcore.data import ArrayExamples, Batch, Signature
from ampcore.diagnostics.input_statistics import InputStatistics
from ampcore.diagnostics.preflight.input_range import input_findings
from ampcore.precision import layer_policies
from ampspec.models.model import Mlp
from ampspec.precision.precision import Precision

PIXELS = np.full((4, 3), 255.0, np.float32)


def findings(x, policy):
    policies = layer_policies(Precision(policy=policy))
    models.build(Mlp(), Signature((3,), "float32", 2), policies)
    rows = len(
        next(iter(x.values())) if isinstance(x, dict) else x[0] if isinstance(x, list) else x
    )
    examples = ArrayExamples(Batch(x, np.zeros(rows, np.int32)))
    return list(input_findings(InputStatistics(examples), policies))


@pytest.mark.parametrize(
    "x", [PIXELS, {"a": PIXELS / 255, "b": -PIXELS}, [PIXELS / 255, np.full((4, 2, 2), 255.0)]]
)
def test_pixels_are_a_warning_in_16_bits(x):
    [finding] = findings(x, "mixed_float16")
    assert (finding.code, finding.severity) == ("inputs_far_from_unit_range", "warning")
    assert finding.data["largest"] == 255


@pytest.mark.parametrize(
    ("x", "policy"),
    [
        (PIXELS, "float32"),
        (PIXELS / 255, "mixed_float16"),
        (np.full((4, 3), 9000, np.int32), "mixed_float16"),
    ],
)
def test_nothing_is_said_of_float32_unit_range_or_keys(x, policy):
    assert findings(x, policy) == []


@pytest.mark.parametrize("value", [1e30, np.nan, -np.inf])
def test_one_bad_example_of_many_is_named_in_every_policy(value):
    x = np.random.default_rng(0).normal(size=(20_000, 3)).astype(np.float32)
    x[12_345, 1] = value
    [finding] = findings(x, "float32")
    assert finding.code == "examples_far_from_all_others"
    assert finding.data["examples"] == [12_345]
    assert "12345" in finding.message


def test_one_large_example_does_not_make_the_range_unsuitable():
    x = np.random.default_rng(0).normal(size=(2000, 3)).astype(np.float32)
    x[7] = 300.0
    assert findings(x, "mixed_float16") == []
