import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampspec.precision.precision import CalibratedScale, FixedScale
from ampspec.telemetry import StepBlock
from ampspec.telemetry.scale_health import (
    WINDOW_STEPS,
    ScaleBounds,
    ScaleHealth,
    ScaleHealthMonitor,
)

BOUNDS = ScaleBounds(minimum=1.0, maximum=2.0**24, growth_interval=2000)

exponents = st.integers(-5, 30)
runs = st.lists(st.tuples(exponents, st.integers(1, 400), st.booleans()), min_size=1, max_size=12)


def observed(scales, skipped=None, bounds=BOUNDS):
    health = ScaleHealthMonitor(bounds)
    health.observe_steps(scales, np.zeros(len(scales), bool) if skipped is None else skipped)
    return health


def dynamic(overflows_above, steps, initial=2.0**15, interval=2000):
    """The health of a dynamic scale whose steps overflow above a limit."""
    scales, skipped, scale, good = [], [], initial, 0
    for _ in range(steps):
        bad = scale > overflows_above
        scales.append(scale)
        skipped.append(bad)
        good = 0 if bad else good + 1
        if bad:
            scale = max(scale / 2, BOUNDS.minimum)
        elif good == interval:
            scale, good = min(scale * 2, BOUNDS.maximum), 0
    return observed(scales, skipped, replace(BOUNDS, growth_interval=interval))


@given(st.floats(1, 2.0**23, width=32), st.integers(100, 3000))
def test_a_constant_scale_is_steady(scale, steps):
    assert observed(np.full(steps, scale)).current == ScaleHealth.STEADY


@given(st.integers(3, 40), exponents.filter(lambda e: 2 < e < 24))
def test_a_sawtooth_scale_oscillates(period, exponent):
    teeth = np.arange(1000) % period == period - 1
    scales = np.where(teeth, 2.0**exponent, 2.0 ** (exponent - 1))
    assert observed(scales, teeth).current == ScaleHealth.OSCILLATING


def test_a_scale_near_its_limit_with_rare_skips_is_steady():
    assert dynamic(2.0**14, 20_000).current == ScaleHealth.STEADY


def test_a_scale_that_overflows_soon_after_each_growth_oscillates():
    assert dynamic(2.0**14, 2000, interval=20).current == ScaleHealth.OSCILLATING


def test_a_run_of_few_steps_warms_up():
    assert observed(np.full(99, 2.0**15)).current == ScaleHealth.WARMING_UP


def test_a_scale_that_only_grows_warms_up():
    assert dynamic(2.0**40, 9000).current == ScaleHealth.WARMING_UP


def test_a_scale_that_only_decreases_warms_up_until_it_is_steady():
    assert dynamic(2.0**2, 109, initial=2.0**20).current == ScaleHealth.WARMING_UP
    assert dynamic(2.0**2, 300, initial=2.0**20).current == ScaleHealth.STEADY


def test_the_first_calibration_counts_as_warming_up():
    teeth = np.arange(900) % 20 == 19
    scales = np.where(teeth, 8.0, 4.0)
    bounds = ScaleBounds(growth_interval=20, calibration_steps=1000)
    assert observed(scales, teeth, bounds).current == ScaleHealth.WARMING_UP


def test_a_scale_that_overflows_at_its_minimum_is_at_the_floor():
    assert dynamic(0.5, 1000).current == ScaleHealth.FLOOR


def test_a_scale_at_its_minimum_without_overflows_is_steady():
    assert dynamic(1.0, 1000).current == ScaleHealth.STEADY


def test_a_scale_without_overflows_at_its_maximum_is_at_the_cap():
    assert dynamic(2.0**40, 1000, initial=2.0**24).current == ScaleHealth.CAP


@given(runs, st.integers(20, 500))
def test_the_health_does_not_depend_on_block_boundaries(runs, size):
    scales = np.concatenate([np.full(count, 2.0**e) for e, count, _ in runs])
    skipped = np.concatenate([np.arange(count) == count - 1 if s else np.zeros(count, bool)
                              for _, count, s in runs])  # fmt: skip
    whole, parts = observed(scales, skipped), ScaleHealthMonitor(BOUNDS)
    for start in range(0, len(scales), size):
        parts.observe_steps(scales[start : start + size], skipped[start : start + size])
    assert parts.to_json() == whole.to_json()
    assert parts.current == whole.current


@given(runs)
def test_a_resumed_run_keeps_its_health(runs):
    before, after = ScaleHealthMonitor(BOUNDS), ScaleHealthMonitor(BOUNDS)
    for exponent, count, skips in runs:
        before.observe_steps(np.full(count, 2.0**exponent), np.full(count, skips))
    document = json.loads(json.dumps(before.to_json()))
    after.restore(document)
    assert after.current == before.current
    assert after.to_json() == document


def test_the_monitor_keeps_a_window_of_fixed_size():
    assert len(dynamic(2.0**14, 5000).to_json()["scales"]) == WINDOW_STEPS


@pytest.mark.parametrize(
    ("network", "current"), [("a", ScaleHealth.FLOOR), ("b", ScaleHealth.STEADY)]
)
def test_the_health_of_a_network_depends_on_its_own_overflows_only(network, current):
    ones, skipped = np.ones(200), np.arange(200) == 150
    columns = {"loss_scale/a": ones, "loss_scale/b": ones, "skipped": skipped}
    norms = {"grad_norm/a": np.where(skipped, np.inf, 1.0), "grad_norm/b": ones}
    health = ScaleHealthMonitor(BOUNDS, network)
    health.observe(StepBlock(0, columns | norms))
    assert health.current == current


def test_a_run_of_one_network_uses_the_columns_without_a_network_name():
    health = ScaleHealthMonitor(BOUNDS)
    health.observe(StepBlock(0, {"loss_scale": np.ones(200), "skipped": np.arange(200) == 150}))
    assert health.current == ScaleHealth.FLOOR


def test_a_fixed_scale_has_no_bounds_and_the_health_fixed():
    assert ScaleBounds.of(FixedScale()) is None
    assert ScaleHealthMonitor(None).current == ScaleHealth.FIXED


def test_the_bounds_come_from_the_spec():
    spec = CalibratedScale(minimum=2.0, calibration_steps=50)
    assert ScaleBounds.of(spec) == ScaleBounds(2.0, 2.0**24, 100, 50)
