"""Consecutive near-equal events are one group, and no other event is hidden in it."""

import math
from datetime import UTC, datetime

from ampclient._display.event_groups import group_events
from ampspec.api.job.events import JobEvent


def event(step, type_="overflow", attempt=1, **data):
    return JobEvent(
        seq=step, type=type_, step=step, attempt=attempt, created_at=datetime.now(UTC), data=data
    )


def sizes(events):
    return [len(group.events) for group in group_events(events)]


def test_two_hundred_overflows_are_one_group_with_their_steps():
    [group] = group_events(event(step, scale_before=2.0**step) for step in range(200))
    assert (len(group.events), group.steps) == (200, (0, 199))
    assert (group.first.step, group.last.step) == (0, 199)


def test_an_event_with_another_cause_is_never_in_the_group():
    same = [event(step, layer="dense", origin="gradients") for step in range(3)]
    assert sizes([*same, event(3, layer="logits", origin="gradients"), *same]) == [3, 1, 3]
    codes = [event(step, "warning", code=code) for step, code in enumerate("aaaba")]
    assert sizes(codes) == [3, 1, 1]
    assert sizes([*same, event(4, attempt=2, layer="dense", origin="gradients")]) == [3, 1]
    assert sizes([event(step, networks={"a": step}) for step in range(3)]) == [3]
    assert sizes([event(0, a=1), event(1, a=1), event(2, b=1)]) == [1, 1, 1]


def test_allocations_that_end_the_same_way_again_and_again_are_one_group():
    def ended(number, state):
        message = f"Slurm job {4710 + number} has ended before a worker ran it: {state}."
        return event(0, "allocation", 0, message=message, name=f"ampcore-0a1-1-{number}")

    assert sizes([ended(number, "NODE_FAIL") for number in range(1, 12)]) == [11]
    assert sizes([*(ended(n, "NODE_FAIL") for n in range(3)), ended(4, "TIMEOUT")]) == [3, 1]


def test_messages_may_differ_in_numbers_alone():
    texts = [f"The loss rose to {value:.4g}; {count} steps" for value, count in ((1e9, 3), (2, 4))]
    texts.append(f"The loss rose to {math.inf}; 5 steps")
    assert sizes([event(i, "loss_spike", message=text) for i, text in enumerate(texts)]) == [3]
    texts[1] = "The loss rose, and another thing happened; 4 steps"
    assert sizes([event(i, "loss_spike", message=text) for i, text in enumerate(texts)]) == [1] * 3


def test_results_and_pairs_are_not_grouped():
    assert sizes([event(step, "evaluation", val_loss=0.5) for step in range(9)]) == [1] * 9
    assert sizes([event(step, "state", state="running") for step in range(9)]) == [1] * 9
    assert sizes([event(0), event(1)]) == [1, 1]
    assert sizes([]) == []
