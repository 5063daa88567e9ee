import numpy as np
import pytest

from ampcore.training import callback_buffer
from ampcore.training.callback_buffer import CallbackBuffer
from ampspec.telemetry import Event, EventType, StepBlock


class Clock:
    now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(callback_buffer, "time", made)
    return made


@pytest.fixture
def emitted():
    return []


@pytest.fixture
def buffer(emitted, clock):
    return CallbackBuffer(emitted.append, emitted.append)


def block(first_step, count=1):
    return StepBlock(first_step, {"loss": np.ones(count)})


def event(step):
    return Event(EventType.OVERFLOW, step)


def test_the_first_block_is_passed_on_at_once(buffer, emitted):
    buffer.block(block(0))
    buffer.event(event(0))
    assert emitted == [block(0), event(0)]


def test_an_event_with_no_block_before_it_is_passed_on_at_once(buffer, emitted):
    buffer.event(event(None))
    assert emitted == [event(None)]


def test_frequent_blocks_are_joined_and_passed_on_before_their_events(buffer, emitted, clock):
    buffer.block(block(0))
    for step in (1, 2, 3):
        clock.now += callback_buffer.FLUSH_INTERVAL_S / 8
        buffer.block(block(step))
        buffer.event(event(step))
    assert emitted == [block(0)]
    buffer.flush()
    assert emitted == [block(0), block(1, 3), event(1), event(2), event(3)]


def test_infrequent_blocks_are_passed_on_one_by_one(buffer, emitted, clock):
    for step in (0, 1, 2):
        buffer.block(block(step))
        clock.now += callback_buffer.FLUSH_INTERVAL_S
    assert emitted == [block(0), block(1), block(2)]


def test_an_event_waits_for_the_blocks_before_it(buffer, emitted):
    buffer.block(block(0))
    buffer.block(block(1))
    buffer.event(event(1))
    assert emitted == [block(0)]
    buffer.flush()
    assert emitted[1:] == [block(1), event(1)]


def test_nothing_is_passed_on_twice(buffer, emitted):
    buffer.block(block(0))
    buffer.event(event(0))
    buffer.flush()
    buffer.flush()
    assert len(emitted) == 2


def test_the_callbacks_are_optional():
    buffer = CallbackBuffer(None, None)
    buffer.block(block(0))
    buffer.event(event(0))
    buffer.flush()
