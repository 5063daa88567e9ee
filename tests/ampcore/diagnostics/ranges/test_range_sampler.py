"""The schedule of range samples, and the share of a run's time that they may take."""

from types import SimpleNamespace

import numpy as np
import pytest

from ampcore.diagnostics.ranges.range_sampler import FIRST_SAMPLE_S_PER_LAYER, RangeSampler
from ampspec.training.telemetry import RangeSampling

LAYERS = 5
STEP_S = 0.1
SAMPLE_S = 0.5


class Clock:
    """A clock that the test sets."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Probe:
    """Takes a known time, or fails."""

    layer_count = LAYERS

    def __init__(self, clock, error=None):
        self.clock, self.error, self.sample_s = clock, error, SAMPLE_S

    def __call__(self, step, *_):
        self.clock.now += self.sample_s
        if self.error is not None:
            raise self.error
        return SimpleNamespace(step=step)


@pytest.fixture
def clock():
    return Clock()


def block(steps):
    class Block(dict):
        def __len__(self):
            return steps

    return Block(step_time_s=np.full(steps, STEP_S))


def train(sampler, clock, steps, first=0):
    """The sampled steps of a run with blocks of one step."""
    sampled = []
    for step in range(first, steps):
        if sampler.is_due(step):
            sampled.append(sampler.sample(step, [1.0], None, None).step)
        clock.now += STEP_S
        sampler.observe(block(1))
    return sampled


def test_without_a_limit_the_schedule_is_exact(clock):
    settings = RangeSampling(first_steps=3, growth=1.5, max_time_share=None)
    sampled = train(RangeSampler(Probe(clock), settings, 40, clock), clock, 40)
    assert sampled == [0, 1, 2, 3, 5, 8, 12, 18, 27]


def test_blocks_end_at_the_next_sample_only_without_a_limit(clock):
    exact = RangeSampler(Probe(clock), RangeSampling(first_steps=1, max_time_share=None), 40, clock)
    assert exact.steps_until_due(0) == 1
    exact.sample(10, [1.0], None, None)
    assert exact.steps_until_due(10) == 3
    assert RangeSampler(Probe(clock), RangeSampling(), 40, clock).steps_until_due(0) is None
    assert (
        RangeSampler(
            Probe(clock), RangeSampling(enabled=False, max_time_share=None), 40, clock
        ).steps_until_due(0)
        is None
    )


def test_a_long_run_is_sampled_from_the_first_steps_on_within_its_share_of_the_time(clock):
    steps, share = 10_000, 0.01
    sampler = RangeSampler(Probe(clock), RangeSampling(max_time_share=share), steps, clock)
    sampled = train(sampler, clock, steps)
    # The first block is not delayed, and the time of a step is known after two.
    assert sampled[:4] == [1, 2, 3, 4]
    assert 10 <= len(sampled) <= share * steps * STEP_S / SAMPLE_S + 2
    assert sampler.to_json()["spent_s"] <= share * clock.now


def test_a_run_that_is_too_short_is_sampled_once(clock):
    steps = int(SAMPLE_S / 0.01 / STEP_S / 4)
    assert train(RangeSampler(Probe(clock), RangeSampling(), steps, clock), clock, steps) == [1]


def test_what_the_first_sample_takes_beyond_its_share_is_missing_for_the_others(clock):
    """The first sample may take 2 s, and all others together another 2 s, half of them at once."""
    steps, share = 2_000, 0.01

    def sampled(first_s):
        probe, start = Probe(clock), clock.now
        sampler = RangeSampler(probe, RangeSampling(), steps, clock)
        probe.sample_s = first_s
        assert train(sampler, clock, 2) == [1]
        probe.sample_s = SAMPLE_S
        found = train(sampler, clock, steps, first=2)
        assert clock.now - start <= (1 + 2 * share) * steps * STEP_S + SAMPLE_S
        return found

    usual, postponed = sampled(2.0), sampled(3.4)
    assert usual[0] == 2
    assert postponed[0] > steps / 4
    assert len(postponed) < len(usual)


def test_a_resumed_run_that_is_too_short_is_not_sampled_again(clock):
    needed = FIRST_SAMPLE_S_PER_LAYER * LAYERS / 0.01 / STEP_S
    settings, steps = RangeSampling(), int(1.5 * needed)
    before = RangeSampler(Probe(clock), settings, steps, clock)
    assert train(before, clock, 2) == [1]
    after = RangeSampler(Probe(clock), settings, steps, clock)
    after.restore(before.to_json())
    assert train(after, clock, steps, first=2) == []
    without = before.to_json() | {"traced_s": 0.0}
    after = RangeSampler(Probe(clock), settings, steps, clock)
    after.restore(without)
    assert train(after, clock, steps, first=2) != []


def test_a_disabled_sampler_samples_nothing(clock):
    settings = RangeSampling(enabled=False, max_time_share=None)
    assert train(RangeSampler(Probe(clock), settings, 40, clock), clock, 40) == []


def test_a_resumed_run_continues_the_schedule_and_the_time(clock):
    settings = RangeSampling(first_steps=1, growth=2.0, max_time_share=None)
    before = RangeSampler(Probe(clock), settings, 40, clock)
    first = train(before, clock, 5)
    after = RangeSampler(Probe(clock), settings, 40, clock)
    after.restore(before.to_json())
    assert first + train(after, clock, 40, first=5) == [0, 1, 2, 4, 8, 16, 32]
    document = after.to_json()
    # Each of the two processes has traced the function once.
    assert (document["traced_s"], document["spent_s"]) == (2 * SAMPLE_S, 5 * SAMPLE_S)


def test_nothing_is_sampled_after_an_error(clock):
    sampler = RangeSampler(
        Probe(clock, MemoryError("no memory")), RangeSampling(max_time_share=None), 9, clock
    )
    assert sampler.sample(0, [1.0], None, None) is None
    assert sampler.error == "no memory"
    assert not sampler.is_due(5)
