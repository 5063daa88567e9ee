import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ampcore.precision import (
    DynamicLossScale,
    FixedLossScale,
    LossScaleState,
    NoLossScale,
    from_spec,
)
from ampcore.spec.precision import DynamicScale, FixedScale, NoScale

SCALES = [NoLossScale(), FixedLossScale(1024.0), DynamicLossScale()]
FACTORS = st.sampled_from([1.5, 2.0, 4.0])
BACKOFFS = st.sampled_from([0.1, 0.25, 0.5, 0.75])
SCALERS = st.builds(
    DynamicLossScale,
    initial=st.sampled_from([1.0, 3.0, 2.0**10]),
    growth_interval=st.integers(1, 7),
    growth_factor=FACTORS,
    backoff_factor=BACKOFFS,
    minimum=st.sampled_from([2.0**-20, 0.3, 1.0]),
    maximum=st.sampled_from([2.0**10, 3e4, 2.0**24]),
    hysteresis=st.integers(1, 4),
)
STEPS, RUNS = 400, 32


def run(scale, finite):
    """The scales of every step, for many runs side by side; `finite` is (steps, runs)."""

    def step(state, now):
        return scale.adjust(state, now)

    start = LossScaleState(*(tf.fill([finite.shape[1]], value) for value in scale.init()))
    whole = tf.function(lambda steps: tf.scan(step, steps, start), autograph=False)
    return whole(tf.constant(finite))


def reference(scale, finite):
    """The same in plain Python, one run after the other."""
    scales = np.empty(finite.shape, np.float32)
    for column in range(finite.shape[1]):
        value, good, bad = np.float32(scale.initial), 0, 0
        for row, ok in enumerate(finite[:, column]):
            good, bad = (good + 1, 0) if ok else (0, bad + 1)
            if good == scale.growth_interval:
                value = min(value * np.float32(scale.growth_factor), np.float32(scale.maximum))
                good = 0
            if bad == scale.hysteresis:
                value = max(value * np.float32(scale.backoff_factor), np.float32(scale.minimum))
                bad = 0
            scales[row, column] = value
    return scales


@settings(max_examples=20, deadline=None)
@given(scale=SCALERS, share=st.floats(0, 1), seed=st.integers(0, 2**32 - 1))
def test_the_dynamic_scale_does_what_the_plain_state_machine_does(scale, share, seed):
    # The share drifts over the runs, so that rows of good and of bad steps of any length occur.
    shares = np.linspace(share, 1.0 - share, RUNS)
    finite = np.random.default_rng(seed).random((STEPS, RUNS)) < shares
    states = run(scale, finite)
    np.testing.assert_array_equal(states.scale, reference(scale, finite))
    assert np.all(states.scale >= np.float32(scale.minimum))
    assert np.all(states.scale <= np.float32(scale.maximum))
    assert np.all(states.good_steps < scale.growth_interval)
    assert np.all(states.bad_steps < scale.hysteresis)


def scales_after(scale, finite):
    return run(scale, np.array(finite)[:, np.newaxis]).scale[:, 0].numpy().tolist()


def test_growth_comes_after_exactly_the_growth_interval():
    scale = DynamicLossScale(initial=4.0, growth_interval=3)
    assert scales_after(scale, [True] * 7) == [4, 4, 8, 8, 8, 16, 16]


def test_a_bad_step_starts_the_count_of_good_ones_again():
    scale = DynamicLossScale(initial=4.0, growth_interval=3)
    assert scales_after(scale, [True, True, False, True, True, True]) == [4, 4, 2, 2, 2, 4]


def test_backoff_comes_on_the_hysteresis_th_bad_step_in_a_row():
    scale = DynamicLossScale(initial=64.0, hysteresis=3)
    finite = [False, False, True, False, False, False, False]
    assert scales_after(scale, finite) == [64, 64, 64, 64, 64, 32, 32]


def test_a_thousand_bad_steps_leave_the_scale_at_the_minimum():
    assert scales_after(DynamicLossScale(minimum=0.5), [False] * 1000)[-1] == 0.5


def test_a_thousand_growths_leave_the_scale_at_the_maximum():
    scale = DynamicLossScale(growth_interval=1, maximum=2.0**96, growth_factor=2.0**16)
    assert scales_after(scale, [True] * 1000)[-1] == 2.0**96


@pytest.mark.parametrize("scale", SCALES)
def test_the_state_travels_through_a_while_loop(scale):
    @tf.function
    def loop():
        def step(index, state):
            return index + 1, scale.adjust(state, index % 2 == 0)

        return tf.while_loop(lambda index, _: index < 5, step, (tf.constant(0), scale.init()))[1]

    state = loop()
    assert isinstance(state, LossScaleState)
    assert [value.dtype for value in state] == [tf.float32, tf.int32, tf.int32]


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


def test_gradients_too_small_for_float16_survive_unscaling():
    grad = tf.constant(6e-8, tf.float16)  # the smallest that float16 has
    scale = FixedLossScale(2.0**15)
    assert scale.unscale(scale.init(), [grad])[0] == float(grad) / 2.0**15


def test_fixed_and_no_scale_never_change():
    for scale in (NoLossScale(), FixedLossScale(8.0)):
        state = scale.init()
        assert scale.adjust(state, tf.constant(False)) is state


def test_scales_are_values():
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
def test_a_dynamic_scale_that_could_get_lost_is_refused(bad):
    with pytest.raises(ValueError, match=r"Expected .* Received: .*="):
        DynamicLossScale(**bad)


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_a_fixed_scale_must_be_finite_and_positive(value):
    with pytest.raises(ValueError, match="Received: value="):
        FixedLossScale(value)


def test_the_spec_names_the_same_scales():
    assert from_spec(NoScale()) == NoLossScale()
    assert from_spec(FixedScale(scale=8.0)) == FixedLossScale(8.0)
    assert from_spec(DynamicScale()) == DynamicLossScale()
    custom = {"initial": 8.0, "growth_interval": 5, "hysteresis": 2, "maximum": 16.0}
    assert from_spec(DynamicScale(**custom)) == DynamicLossScale(**custom)
