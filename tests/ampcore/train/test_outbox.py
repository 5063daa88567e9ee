import numpy as np
import pytest

from ampcore.series import Event, EventType, StepBlock
from ampcore.train import outbox
from ampcore.train.outbox import Outbox


class Clock:
    now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(outbox, "time", made)
    return made


@pytest.fixture
def told():
    return []


@pytest.fixture
def box(told, clock):
    return Outbox(told.append, told.append)


def block(first_step, count=1):
    return StepBlock(first_step, {"loss": np.ones(count)})


def event(step):
    return Event(EventType.OVERFLOW, step)


def test_the_first_block_is_passed_on_at_once(box, told):
    box.block(block(0))
    box.event(event(0))
    assert told == [block(0), event(0)]


def test_an_event_with_no_block_before_it_is_passed_on_at_once(box, told):
    box.event(event(None))
    assert told == [event(None)]


def test_blocks_that_come_fast_are_passed_on_as_one_before_their_events(box, told, clock):
    box.block(block(0))
    for step in (1, 2, 3):
        clock.now += outbox.EVERY_S / 8
        box.block(block(step))
        box.event(event(step))
    assert told == [block(0)]
    box.flush()
    assert told == [block(0), block(1, 3), event(1), event(2), event(3)]


def test_blocks_that_come_slowly_are_passed_on_one_by_one(box, told, clock):
    for step in (0, 1, 2):
        box.block(block(step))
        clock.now += outbox.EVERY_S
    assert told == [block(0), block(1), block(2)]


def test_an_event_waits_for_the_blocks_before_it(box, told):
    box.block(block(0))
    box.block(block(1))
    box.event(event(1))
    assert told == [block(0)]
    box.flush()
    assert told[1:] == [block(1), event(1)]


def test_what_was_passed_on_is_not_passed_on_again(box, told):
    box.block(block(0))
    box.event(event(0))
    box.flush()
    box.flush()
    assert len(told) == 2


def test_nobody_has_to_listen():
    box = Outbox(None, None)
    box.block(block(0))
    box.event(event(0))
    box.flush()
