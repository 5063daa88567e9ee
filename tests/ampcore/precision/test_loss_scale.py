import math
from dataclasses import FrozenInstanceError

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ampcore.precision import (
    CalibratedLossScale,
    DynamicLossScale,
    FixedLossScale,
    LossScaleState,
    NoLossScale,
    from_spec,
)
from ampspec.precision.precision import (
    AutoScale,
    CalibratedScale,
    DynamicScale,
    FixedScale,
    NoScale,
)

SCALES = [NoLossScale(), FixedLossScale(1024.0), DynamicLossScale(), CalibratedLossScale()]
CONSTANTS = {
    "initial": st.sampled_from([1.0, 3.0, 2.0**10]),
    "growth_interval": st.integers(1, 7),
    "growth_factor": st.sampled_from([1.5, 2.0, 4.0, 2.0**16]),
    "backoff_factor": st.sampled_from([1e-30, 0.1, 0.25, 0.5, 0.75]),
    "minimum": st.sampled_from([2.0**-96, 0.3, 1.0]),
    "maximum": st.sampled_from([2.0**10, 3e4, 2.0**24, 2.0**96]),
    "hysteresis": st.integers(1, 4),
}
DYNAMIC = st.builds(DynamicLossScale, **CONSTANTS)
CALIBRATED = st.builds(
    CalibratedLossScale,
    **CONSTANTS,
    calibration_steps=st.integers(1, 40),
    audit_interval=st.integers(1, 40),
)
STEPS, RUNS = 300, 500
"""In one example; with 20 examples, three million transitions of each kind."""


def run(scale, finite, *, compiled=False):
    """The states of every step, for many runs side by side; `finite` is (steps, runs)."""
    start = LossScaleState(*(tf.fill([finite.shape[1]], value) for value in scale.init()))
    steps = tf.function(
        lambda flags: tf.scan(scale.adjust, flags, start), autograph=False, jit_compile=compiled
    )
    return steps(tf.constant(finite))


def reference(scale, finite):
    """The same as `run` in plain NumPy, written as the documentation describes it."""
    low, high = np.float32(scale.minimum), np.float32(scale.maximum)
    value = np.full(finite.shape[1], scale.initial, np.float32)
    good, bad, step = (np.zeros(finite.shape[1], np.int32) for _ in range(3))
    calibration = getattr(scale, "calibration_steps", None)
    rows = []
    for ok in finite:
        bad = np.where(ok, 0, bad + 1)
        too_many = bad == scale.hysteresis
        frozen = np.zeros_like(ok) if calibration is None else step >= calibration
        good = np.where(ok & ~frozen, good + 1, 0)
        long_enough = good == scale.growth_interval
        value[long_enough] = np.minimum(value[long_enough] * np.float32(scale.growth_factor), high)
        value[too_many] = np.maximum(value[too_many] * np.float32(scale.backoff_factor), low)
        good[long_enough] = bad[too_many] = 0
        if calibration is not None:
            step = (step + 1) % (calibration + scale.audit_interval)
            step[frozen & too_many] = 0
        rows.append((value.copy(), good, bad, step.copy()))
    return [np.stack(field) for field in zip(*rows, strict=True)]


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(scale=DYNAMIC, share=st.floats(0, 1), seed=st.integers(0, 2**32 - 1))
def test_the_dynamic_scale_matches_the_numpy_reference(scale, share, seed):
    check_against_reference(scale, share, seed)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(scale=CALIBRATED, share=st.floats(0, 1), seed=st.integers(0, 2**32 - 1))
def test_the_calibrated_scale_matches_the_numpy_reference(scale, share, seed):
    check_against_reference(scale, share, seed)


def check_against_reference(scale, share, seed):
    # The share drifts over the runs, so that rows of good and of bad steps of any length occur.
    shares = np.linspace(share, 1.0 - share, RUNS)
    finite = np.random.default_rng(seed).random((STEPS, RUNS)) < shares
    states = run(scale, finite)
    for name, expected in zip(LossScaleState._fields, reference(scale, finite), strict=True):
        np.testing.assert_array_equal(getattr(states, name), expected, err_msg=name)
    # In bounds, and so never 0, infinite or NaN.
    assert np.all(states.scale >= np.float32(scale.minimum))
    assert np.all(states.scale <= np.float32(scale.maximum))


@pytest.mark.parametrize(
    "scale",
    [
        DynamicLossScale(growth_interval=3, hysteresis=2),
        CalibratedLossScale(growth_interval=3, calibration_steps=20, audit_interval=30),
    ],
)
def test_xla_compiles_the_same_state_machine(scale):
    finite = np.random.default_rng(0).random((200, 8)) < np.linspace(0.2, 0.99, 8)
    for ours, compiled in zip(run(scale, finite), run(scale, finite, compiled=True), strict=True):
        np.testing.assert_array_equal(ours, compiled)


def grad_scaler(finite, initial, interval, growth, backoff):
    """The scales of torch.amp.GradScaler by its documented rule.

    "multiplied by backoff_factor if inf/NaN gradients are found", "by growth_factor if no inf/NaN
    gradients are found for growth_interval consecutive iterations", when that is finite.
    """
    scale, tracker, scales = np.float32(initial), 0, []
    for ok in finite:
        tracker = tracker + 1 if ok else 0
        if not ok:
            scale *= np.float32(backoff)
        elif tracker == interval:
            tracker = 0
            scale = grown if np.isfinite(grown := scale * np.float32(growth)) else scale
        scales.append(float(scale))
    return scales


@pytest.mark.parametrize("interval", [1, 5, 20, 200])
def test_the_dynamic_scale_matches_the_grad_scaler_of_pytorch(interval):
    # So many good steps that the scale grows as often as it shrinks.
    finite = np.random.default_rng(interval).random(2000) < 0.5 ** (1 / interval)
    # Bounds that are never reached and no hysteresis: GradScaler has neither.
    scale = DynamicLossScale(2.0**16, interval, minimum=2.0**-96, maximum=2.0**96)
    expected = grad_scaler(finite.tolist(), 2.0**16, interval, 2.0, 0.5)
    assert 2.0**-96 < min(expected) < max(expected) < 2.0**96
    assert scales_after(scale, finite) == expected


def scales_after(scale, finite):
    return run(scale, np.array(finite)[:, np.newaxis]).scale[:, 0].numpy().tolist()


def test_the_scale_grows_after_exactly_the_growth_interval():
    scale = DynamicLossScale(initial=4.0, growth_interval=3)
    assert scales_after(scale, [True] * 7) == [4, 4, 8, 8, 8, 16, 16]


def test_a_bad_step_resets_the_count_of_good_steps():
    scale = DynamicLossScale(initial=4.0, growth_interval=3)
    assert scales_after(scale, [True, True, False, True, True, True]) == [4, 4, 2, 2, 2, 4]


def test_the_scale_backs_off_after_hysteresis_bad_steps_in_a_row():
    scale = DynamicLossScale(initial=64.0, hysteresis=3)
    finite = [False, False, True, False, False, False, False]
    assert scales_after(scale, finite) == [64, 64, 64, 64, 64, 32, 32]


def test_a_thousand_bad_steps_leave_the_scale_at_the_minimum():
    assert scales_after(DynamicLossScale(minimum=0.5), [False] * 1000)[-1] == 0.5


def test_a_thousand_growths_leave_the_scale_at_the_maximum():
    scale = DynamicLossScale(growth_interval=1, maximum=2.0**96, growth_factor=2.0**16)
    assert scales_after(scale, [True] * 1000)[-1] == 2.0**96


def test_the_scale_never_grows_to_infinity():
    """The scale of Keras has no maximum: it grows to inf and stays there."""
    scale = DynamicLossScale(growth_interval=1, maximum=2.0**96)
    finite = np.array([[True]] * 1000 + [[False]])
    state = run(scale, finite)
    assert state.scale[-2, 0] == 2.0**96
    assert state.scale[-1, 0] == 2.0**95


CALIBRATION = CalibratedLossScale(
    initial=8.0, growth_interval=2, hysteresis=2, calibration_steps=4, audit_interval=5
)


def test_a_calibrated_scale_grows_during_calibration_and_then_stays():
    assert scales_after(CALIBRATION, [True] * 9) == [8, 16, 16, 32, 32, 32, 32, 32, 32]


def test_an_audit_begins_with_the_count_of_good_steps_at_zero():
    assert scales_after(CALIBRATION, [True] * 13)[8:] == [32, 32, 64, 64, 128]


def test_a_single_bad_step_does_not_change_a_frozen_scale():
    finite = [True] * 4 + [False, True, False, True, False]
    assert scales_after(CALIBRATION, finite) == [8, 16, 16, 32, 32, 32, 32, 32, 32]


def test_bad_steps_in_a_row_end_the_freeze_and_back_off():
    finite = [True] * 4 + [False, False, True, True, False, False]
    assert scales_after(CALIBRATION, finite)[4:] == [32, 16, 16, 32, 32, 16]
    states = run(CALIBRATION, np.array(finite)[:, np.newaxis])
    assert states.round_steps[:, 0].numpy().tolist() == [1, 2, 3, 4, 5, 0, 1, 2, 3, 4]


def test_a_calibrated_scale_backs_off_while_steps_overflow():
    scale = CalibratedLossScale(initial=2.0**20, calibration_steps=1, audit_interval=100)
    assert scales_after(scale, [False] * 100)[-1] == 1.0


@pytest.mark.parametrize("scale", SCALES)
def test_the_state_is_a_loop_variable_of_a_while_loop(scale):
    @tf.function
    def loop():
        def step(index, state):
            return index + 1, scale.adjust(state, index % 2 == 0)

        return tf.while_loop(lambda index, _: index < 5, step, (tf.constant(0), scale.init()))[1]

    state = loop()
    assert isinstance(state, LossScaleState)
    assert [value.dtype for value in state] == [tf.float32, tf.int32, tf.int32, tf.int32]


@pytest.mark.parametrize("scale", SCALES)
def test_unscale_undoes_scale(scale):
    state = scale.init()
    loss = tf.constant(0.1)
    assert scale.unscale(state, [scale.scale(state, loss)])[0] == loss


@pytest.mark.parametrize("scale", SCALES)
def test_a_float16_loss_is_scaled_in_float32(scale):
    scaled = scale.scale(scale.init(), tf.constant(60000.0, tf.float16))
    assert scaled.dtype == tf.float32
    assert np.isfinite(scaled)


@pytest.mark.parametrize("scale", SCALES)
def test_unscaled_gradients_are_float32_and_keep_their_structure(scale):
    sparse = tf.IndexedSlices(tf.ones([2, 3], tf.float16), tf.constant([4, 4]), tf.constant([9, 3]))
    grads = {"dense": tf.ones([2], tf.float16), "sparse": sparse, "none": None}
    unscaled = scale.unscale(scale.init(), grads)
    assert unscaled["none"] is None
    assert unscaled["dense"].dtype == tf.float32
    assert isinstance(unscaled["sparse"], tf.IndexedSlices)
    assert unscaled["sparse"].values.dtype == tf.float32
    assert unscaled["sparse"].indices is sparse.indices
    assert unscaled["sparse"].dense_shape is sparse.dense_shape


@pytest.mark.parametrize("scale", SCALES)
def test_a_value_that_overwrites_its_variable_is_not_unscaled(scale):
    weight, history = keras.Variable([1.0]), keras.Variable([1.0])
    history.overwrite_with_gradient = True
    state, rows = scale.init(), tf.IndexedSlices([[8.0]], [1], [2, 1])
    grads = [tf.constant([8.0]), tf.constant([3.0], tf.float16), rows, None]
    mine, kept, sparse, none = scale.unscale(state, grads, [weight, history, weight, weight])
    assert float(mine[0]) == float(sparse.values[0, 0]) == 8.0 / float(state.scale)
    assert (kept.dtype, float(kept[0]), none) == (tf.float16, 3.0, None)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize(
    ("flag", "received"),
    [
        (tf.constant([True]), r"shape \(1,\) and dtype bool"),
        (tf.constant([True, False]), r"shape \(2,\) and dtype bool"),
        (tf.constant(1.0), r"shape \(\) and dtype float32"),
    ],
)
def test_a_finite_flag_of_another_shape_or_dtype_is_refused(scale, graph, flag, received):
    adjust = tf.function(scale.adjust, autograph=False) if graph else scale.adjust
    expected = rf"Expected finite: a boolean of the shape .*\(\).*Received: finite of {received}"
    with pytest.raises(ValueError, match=expected):
        adjust(scale.init(), flag)


def test_gradients_too_small_for_float16_survive_unscaling():
    grad = tf.constant(6e-8, tf.float16)  # the smallest that float16 has
    scale = FixedLossScale(2.0**15)
    assert scale.unscale(scale.init(), [grad])[0] == float(grad) / 2.0**15


def test_fixed_and_no_scale_never_change():
    for scale in (NoLossScale(), FixedLossScale(8.0)):
        state = scale.init()
        assert scale.adjust(state, tf.constant(False)) is state


@pytest.mark.parametrize(
    ("scale", "given", "clamped"),
    [
        (NoLossScale(), 0.5, 1.0),
        (FixedLossScale(8.0), 4.0, 4.0),
        (FixedLossScale(8.0), 0.0, 2.0**-96),
        (DynamicLossScale(minimum=2.0), 1.0, 2.0),
        (DynamicLossScale(maximum=2.0**16), 2.0**20, 2.0**16),
        (CalibratedLossScale(), 4.0, 4.0),
    ],
)
def test_clamp_brings_a_scale_into_bounds(scale, given, clamped):
    state = scale.init()._replace(scale=tf.constant(given))
    assert scale.clamp(state).scale == clamped


def test_scales_are_frozen_and_compare_by_value():
    assert DynamicLossScale() == DynamicLossScale()
    assert len({FixedLossScale(2.0), FixedLossScale(2.0), NoLossScale()}) == 2
    with pytest.raises(FrozenInstanceError):
        DynamicLossScale().initial = 1.0


@pytest.mark.parametrize(
    "bad",
    [
        {"minimum": 0.0},
        {"minimum": 2.0, "initial": 1.0},
        {"initial": 2.0**25},
        {"maximum": math.inf},
        {"initial": math.nan},
        {"growth_factor": 1.0},
        {"backoff_factor": 1.0},
        {"growth_interval": 0},
        {"hysteresis": 0},
    ],
)
def test_a_dynamic_scale_with_invalid_constants_is_refused(bad):
    with pytest.raises(ValueError, match=r"Expected .* Received: .*="):
        DynamicLossScale(**bad)


@pytest.mark.parametrize(
    "bad",
    [
        {"calibration_steps": 0},
        {"audit_interval": 0},
        {"audit_interval": 2**31 - 1},
        {"minimum": 0},
    ],
)
def test_a_calibrated_scale_with_invalid_constants_is_refused(bad):
    with pytest.raises(ValueError, match=r"Expected .* Received: .*="):
        CalibratedLossScale(**bad)


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_a_fixed_scale_must_be_finite_and_positive(value):
    with pytest.raises(ValueError, match="Received: value="):
        FixedLossScale(value)


def test_from_spec_builds_the_scale_of_the_spec():
    assert from_spec(NoScale()) == NoLossScale()
    assert from_spec(FixedScale(scale=8.0)) == FixedLossScale(8.0)
    assert from_spec(DynamicScale()) == DynamicLossScale()
    assert from_spec(CalibratedScale()) == CalibratedLossScale()
    assert from_spec(CalibratedScale(audit_interval=9)) == CalibratedLossScale(audit_interval=9)
    custom = {"initial": 8.0, "growth_interval": 5, "hysteresis": 2, "maximum": 16.0}
    assert from_spec(DynamicScale(**custom)) == DynamicLossScale(**custom)


@pytest.mark.parametrize(
    ("dtypes", "scale"),
    [
        ({"float16"}, DynamicLossScale()),
        ({"float16", "bfloat16"}, DynamicLossScale()),
        ({"bfloat16"}, NoLossScale()),
        (frozenset(), NoLossScale()),
    ],
)
def test_the_auto_scale_depends_on_the_compute_dtypes_of_the_layers(dtypes, scale):
    assert from_spec(AutoScale(), dtypes) == scale
