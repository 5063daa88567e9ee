"""The detector marks planted spikes, and nothing in a normal training."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampspec.telemetry import EventType, StepBlock
from ampspec.telemetry.anomalies import MIN_STEPS, PAUSE, SpikeDetector
from ampspec.telemetry.json_values import json_safe

STEPS = 2000


def block(loss, grad_norm, first_step=0, skipped=None):
    count = len(loss)
    columns = {"loss": loss, "grad_norm": grad_norm, "loss_scale": np.ones(count)}
    columns["skipped"] = np.zeros(count, bool) if skipped is None else skipped
    return StepBlock(first_step, columns)


def normal_training(seed=0, steps=STEPS):
    """A loss that falls from 2.3 with the noise of small batches, and heavy-tailed norms."""
    rng = np.random.default_rng(seed)
    trend = 0.05 + 2.25 * np.exp(-np.arange(steps) / 300)
    loss = trend * np.exp(0.25 * rng.standard_normal(steps))
    norm = 2 * np.sqrt(trend) * np.exp(0.4 * rng.standard_normal(steps))
    return loss, norm


def events_of(*blocks):
    detector = SpikeDetector()
    return [event for block in blocks for event in detector.observe(block)]


@pytest.mark.parametrize("seed", range(8))
def test_a_normal_decrease_of_the_loss_causes_no_event(seed):
    assert events_of(block(*normal_training(seed))) == []


def test_a_planted_spike_of_the_loss_is_marked_with_its_evidence():
    loss, norm = normal_training()
    loss[1000] = 3.0
    [event] = events_of(block(loss, norm))
    assert (event.type, event.step) == (EventType.LOSS_SPIKE, 1000)
    assert event.data["value"] == 3.0
    assert event.data["median"] == pytest.approx(np.median(loss[928:992]), rel=0.1)
    assert event.data["score"] > 6
    assert "rose to 3" in event.data["message"]


def test_a_planted_jump_of_the_gradient_norm_is_marked():
    loss, norm = normal_training()
    norm[500] *= 1000
    [event] = events_of(block(loss, norm))
    assert (event.type, event.step) == (EventType.GRAD_NORM_JUMP, 500)
    assert event.data["value"] == pytest.approx(norm[500], rel=1e-6)


def test_a_rise_that_lasts_is_one_event_and_a_later_one_another():
    loss, norm = normal_training()
    loss[1000:1020] += 5
    loss[1000 + 20 + PAUSE + 300] += 5
    events = events_of(block(loss, norm))
    assert [event.step for event in events] == [1000, 1352]


def test_a_rise_that_does_not_matter_is_no_event():
    loss, norm = normal_training()
    loss[1500:] = 1e-4 * (1 + 0.01 * np.random.default_rng(1).standard_normal(500))
    loss[1800] = 0.05  # 500 times the loss, but 2 % of that at the start
    assert events_of(block(loss, norm)) == []


def test_skipped_and_non_finite_steps_are_left_out():
    loss, norm = normal_training()
    skipped = np.zeros(STEPS, bool)
    loss[700], skipped[700] = 50.0, True
    loss[800], norm[801] = np.nan, np.inf
    assert events_of(block(loss, norm, skipped=skipped)) == []


def test_the_first_steps_are_not_compared():
    loss, norm = normal_training()
    loss[MIN_STEPS - 1] = 100
    assert events_of(block(loss, norm)) == []


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, STEPS - 1), max_size=20), st.booleans())
def test_events_depend_neither_on_blocks_nor_on_a_resume(cuts, resumes):
    loss, norm = normal_training()
    loss[[900, 1500]], norm[[300, 1501]] = 9.0, 1e6
    whole = events_of(block(loss, norm))
    assert len(whole) == 4
    detector, events = SpikeDetector(), []
    edges = sorted({0, *cuts, STEPS})
    for start, end in pairwise(edges):
        events += detector.observe(block(loss[start:end], norm[start:end], start))
        if resumes:
            document = json.loads(json.dumps(json_safe(detector.to_json())))
            detector = SpikeDetector()
            detector.restore(document)
    assert sorted(events, key=str) == sorted(whole, key=str)


def test_an_empty_state_is_restored_as_a_new_detector():
    detector = SpikeDetector()
    detector.restore({})
    assert detector.to_json()["first_loss"] is None
