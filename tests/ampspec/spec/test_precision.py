import re

import pytest

from ampspec.jobs import JobSpec, SpecValidationError
from ampspec.precision.precision import (
    AutoScale,
    CalibratedScale,
    DynamicScale,
    NoScale,
    Precision,
    default_loss_scale,
)

BASE = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}


def problem(**parts):
    with pytest.raises(SpecValidationError) as caught:
        JobSpec.parse(BASE | parts)
    [found] = caught.value.problems
    return found


@pytest.mark.parametrize("policy", ["mixed_float16", "float16", "O1", "O2", "O3"])
def test_every_policy_with_float16_has_a_dynamic_loss_scale(policy):
    """Keras wraps the optimizer for the literal name mixed_float16 alone."""
    assert default_loss_scale(Precision(policy=policy)) == DynamicScale()


@pytest.mark.parametrize("policy", ["float32", "bfloat16", "mixed_bfloat16", "O0", "auto"])
def test_a_float16_override_of_one_layer_has_a_dynamic_loss_scale(policy):
    """Keras neither scales nor warns if a DTypePolicyMap or a layer's own dtype is float16."""
    precision = {"policy": policy, "overrides": [{"layers": "conv_1", "dtype": "float16"}]}
    assert JobSpec.parse(BASE | {"precision": precision}).loss_scale == DynamicScale()


@pytest.mark.parametrize("policy", ["float32", "bfloat16", "mixed_bfloat16", "O0"])
def test_policies_with_the_range_of_float32_have_no_loss_scale(policy):
    overrides = [{"layers": "conv_1", "dtype": "bfloat16"}]
    precision = Precision(policy=policy, overrides=overrides)
    assert default_loss_scale(precision) == NoScale()


def test_the_auto_policy_has_the_auto_loss_scale():
    assert default_loss_scale(Precision(policy="auto")) == AutoScale()


@pytest.mark.parametrize(
    "pattern", ["conv_(1", "*", "a{99999999999}", "[a-\uffff]", r"[a-\uffff]", r"[a-\U0010ffff]"]
)
def test_an_override_with_an_invalid_regular_expression_is_refused_with_its_pointer(pattern):
    good = {"layers": "conv", "dtype": "float32"}
    mistake = problem(precision={"overrides": [good, good | {"layers": pattern}]})
    assert mistake.pointer == "/precision/overrides/1/layers"
    assert re.match("Expected a (valid )?regular expression", mistake.detail)


def test_a_calibrated_scale_is_audited_by_default():
    scale = JobSpec.parse(BASE | {"loss_scale": {"mode": "calibrated"}}).loss_scale
    assert scale == CalibratedScale(calibration_steps=1000, audit_interval=10_000)
    doublings = scale.calibration_steps // scale.growth_interval
    assert scale.initial * scale.growth_factor**doublings >= scale.maximum


@pytest.mark.parametrize("mode", ["dynamic", "calibrated"])
def test_the_initial_scale_must_lie_in_the_bounds(mode):
    mistake = problem(loss_scale={"mode": mode, "initial": 8.0, "minimum": 16.0})
    assert mistake.pointer == "/loss_scale/initial"


@pytest.mark.parametrize("field", ["calibration_steps", "audit_interval"])
@pytest.mark.parametrize("value", [0, 2**30])
def test_calibration_steps_and_audit_interval_must_fit_the_step_counter(field, value):
    mistake = problem(loss_scale={"mode": "calibrated", field: value})
    assert mistake.pointer == f"/loss_scale/{field}"
