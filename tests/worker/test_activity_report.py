"""What an attempt does is written to its job once it lasts, and never after that."""

from types import SimpleNamespace

import pytest

from ampspec.telemetry.activities import Activity
from ampspec.telemetry.frames import Frame, FrameType
from worker.attempt.activity_report import MIN_S, ActivityReport


class Recorded:
    """A report whose clock the test sets, and what it has passed on."""

    def __init__(self) -> None:
        self.now = 0.0
        self.traced: list[Activity | None] = []
        self.first_steps: list[int] = []
        self.written: list[Activity | None] = []
        trace = SimpleNamespace(enter=self.traced.append, first_steps=self.first_steps.append)
        self.report = ActivityReport(trace, self.written.append, lambda: self.now)  # type: ignore[arg-type]

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.report.observe(())


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


def activity(name: Activity) -> Frame:
    return Frame(FrameType.ACTIVITY, {"activity": name})


def test_an_activity_is_written_once_it_lasts(recorded: Recorded) -> None:
    recorded.report.enter(Activity.DOWNLOADING)
    recorded.wait(MIN_S / 2)
    assert recorded.written == []
    recorded.wait(MIN_S / 2)
    recorded.wait(10 * MIN_S)
    assert recorded.written == [Activity.DOWNLOADING]


def test_short_evaluations_are_in_the_trace_and_not_written(recorded: Recorded) -> None:
    recorded.report.enter(Activity.TRAINING)
    recorded.wait(MIN_S)
    for _ in range(100):
        recorded.report.observe([activity(Activity.EVALUATING)])
        recorded.wait(MIN_S / 10)
        recorded.report.observe([activity(Activity.TRAINING)])
        recorded.wait(MIN_S / 10)
    assert recorded.written == [Activity.TRAINING]
    assert recorded.traced.count(Activity.EVALUATING) == 100


def test_the_end_of_a_long_activity_is_written(recorded: Recorded) -> None:
    recorded.report.observe([activity(Activity.EVALUATING)])
    recorded.wait(MIN_S)
    recorded.report.observe([activity(Activity.TRAINING)])
    recorded.wait(MIN_S)
    assert recorded.written == [Activity.EVALUATING, Activity.TRAINING]


def test_what_is_not_known_replaces_what_was_written(recorded: Recorded) -> None:
    recorded.report.enter(Activity.STARTING)
    recorded.wait(MIN_S)
    recorded.report.enter(None)
    recorded.wait(MIN_S)
    assert recorded.written == [Activity.STARTING, None]


def test_uploads_are_written_at_once(recorded: Recorded) -> None:
    recorded.report.enter(Activity.UPLOADING)
    recorded.report.write()
    recorded.report.write()
    assert recorded.written == [Activity.UPLOADING]


def test_the_trace_learns_of_steps(recorded: Recorded) -> None:
    recorded.report.observe([Frame(FrameType.STEPS, {"count": 4})])
    assert recorded.first_steps == [4]
