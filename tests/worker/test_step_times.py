"""Where the time of a training goes: each second counts once, and what is not known is other."""

import numpy as np
import pytest

from ampspec.telemetry import Event, StepBlock
from ampspec.telemetry.activities import Activity
from worker.trainer.child.step_times import MIN_INTERVAL_S, StepTimes

PARTS = (
    *("compute_s", "input_s", "diagnostics_s", "evaluation_s", "checkpoint_s"),
    *("telemetry_s", "other_s"),
)


class Training:
    """A training whose clock the test sets."""

    def __init__(self) -> None:
        self.now = self.input_s = 0.0
        self.steps = 0
        self.times = StepTimes(lambda: self.input_s, lambda: self.now)

    def block(self, count: int, step_s: float) -> Event | None:
        """Train a block; the event that is due after it."""
        self.now += count * step_s
        columns = {
            "loss": np.zeros(count),
            "skipped": np.zeros(count, bool),
            "step_time_s": np.full(count, step_s),
            "examples": np.full(count, 8),
        }
        self.times.add(StepBlock(self.steps, columns))
        self.steps += count
        return self.times.event_if_due()

    def pause(self, activity: Activity, seconds: float) -> None:
        self.times.enter(activity)
        self.now += seconds
        self.times.enter(Activity.TRAINING)


@pytest.fixture
def training() -> Training:
    return Training()


def test_each_part_is_that_of_its_interval_and_the_rest_is_other(training: Training) -> None:
    training.now += 30  # the data and the model
    training.times.enter(Activity.COMPILING)
    training.now += 20
    training.times.enter(Activity.TRAINING)
    training.now += 5  # the step is traced and compiled when it is first called
    assert training.block(1, 0.0) is None
    training.input_s += 0.5
    training.pause(Activity.EVALUATING, 0.75)
    training.pause(Activity.SAVING, 0.25)
    with training.times.telemetry():
        training.now += 0.125
    training.now += 0.375  # nothing measures it
    event = training.block(16, 0.125)
    assert event is not None
    expected = {
        **{"first_step": 0, "steps": 17, "wall_s": 3.5},
        **{"compute_s": 1.5, "input_s": 0.5, "evaluation_s": 0.75, "checkpoint_s": 0.25},
        **{"telemetry_s": 0.125, "other_s": 0.375},
    }
    assert {name: event.data[name] for name in expected} == expected
    assert event.step == 16
    assert event.data["message"].startswith("17 steps took 3.5 s: compute 42.9 %, input 14.3 %")


def test_the_intervals_of_a_long_training_are_few_and_have_all_of_its_time(
    training: Training,
) -> None:
    training.times.enter(Activity.TRAINING)
    events = [event for _ in range(100_000) if (event := training.block(1, 1.0)) is not None]
    training.pause(Activity.EVALUATING, 3.0)
    last = training.times.last_event()
    assert last is not None
    events.append(last)
    assert len(events) < 250
    assert events[0].data["wall_s"] >= MIN_INTERVAL_S
    assert sum(event.data["steps"] for event in events) == 100_000
    assert sum(event.data[part] for event in events for part in PARTS) == pytest.approx(100_003)


def test_a_training_without_steps_has_no_times(training: Training) -> None:
    training.times.enter(Activity.TRAINING)
    training.now += 5
    assert training.times.last_event() is None


def test_a_runner_that_counts_anew_after_a_fallback_takes_no_time_away(training: Training) -> None:
    training.times.enter(Activity.TRAINING)
    training.input_s = 1.5
    assert training.block(2, 1.0) is not None
    training.input_s = 0.25
    event = training.block(2, 1.0)
    assert event is not None
    assert (event.data["input_s"], event.data["compute_s"]) == (0.25, 1.75)
