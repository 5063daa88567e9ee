"""The steps of a run with rollbacks do not depend on how they are divided into blocks."""

import functools
from functools import partial

import numpy as np
import pytest

from ampcore.training.step import step_runner
from ampcore.training.step.plan import AdaptiveBlockSize
from ampspec.telemetry import EventType

BATCH, STEPS = 8, 40
BAD = (10, 11, 12, 21, 22, 23, 24, 33, 34)
"""The steps whose batches overflow."""

JOBS = {
    "skipped steps": {"loss_scale": {"mode": "dynamic", "initial": 2.0**10, "growth_interval": 7}},
    "applied steps": {"loss_scale": {"mode": "none"}},
    "to float32": {
        "loss_scale": {"mode": "dynamic", "initial": 2.0**10},
        "precision": {"policy": "mixed_float16"},
        "guard": {"max_consecutive_skips": 3, "on_exceeded": "float32"},
        # Before the next bad batches: they would end a run in float32.
        "train": {"steps": 20},
    },
}


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """A job of one epoch with bad steps, and a guard with a limit of three in a row."""
    random = np.random.default_rng(0)
    x = random.random((BATCH * STEPS, 4)).astype(np.float32)
    for step in BAD:
        x[step * BATCH : (step + 1) * BATCH] = 3e38
    file = tmp_path_factory.mktemp("data") / "bad.npz"
    np.savez(file, x_train=x, y_train=random.integers(3, size=len(x)))

    def make(name):
        return {
            "data": {"kind": "npz", "path": str(file), "batch_size": BATCH, "shuffle": False},
            "model": {"kind": "mlp", "hidden": [5], "dropout": 0.2},
            "optimizer": {"kind": "momentum", "learning_rate": 0.1, "ema": 0.9},
            "guard": {
                **{"max_consecutive_skips": 3, "on_exceeded": "rollback"},
                "keep_state_every_steps": 6,
            },
            **JOBS[name],
        }

    return make


@pytest.fixture
def short_blocks(monkeypatch):
    """Makes blocks of one step."""
    monkeypatch.setattr(step_runner, "AdaptiveBlockSize", partial(AdaptiveBlockSize, 1e-9))


@pytest.fixture(scope="module")
def whole_run(run_job, parts):
    """Runs a job in the longest blocks, without a pause; each job only once."""

    @functools.cache
    def run(name):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(step_runner, "AdaptiveBlockSize", partial(AdaptiveBlockSize, 1e9))
            return run_job(**parts(name))

    return run


class ObservedSteps:
    """The steps as readers see them: those of an attempt replace earlier ones."""

    def __init__(self):
        self._rows, self._events = {}, {}

    def add(self, run):
        timeless_steps = run.without_times
        columns = [timeless_steps[name].tolist() for name in timeless_steps.names]
        kinds = (EventType.ROLLBACK, EventType.FLOAT32_FALLBACK)
        events = {event.step: event.data for event in run.events if event.type in kinds}
        for step, row in enumerate(zip(*columns, strict=True), start=timeless_steps.first_step):
            self._rows[step] = row
            self._events.pop(step, None)
        self._events |= events
        return self

    @property
    def recoveries(self):
        return sorted(self._events.items())

    @property
    def steps(self):
        return np.array([self._rows[step] for step in range(len(self._rows))])


def assert_same(found, last, whole):
    series = ObservedSteps().add(whole)
    np.testing.assert_array_equal(found.steps, series.steps)
    assert found.recoveries == series.recoveries
    assert len(found.recoveries) > 0
    assert last.result.weights_digest == whole.result.weights_digest
    assert last.result.final_loss_scale == whole.result.final_loss_scale


@pytest.mark.parametrize("name", JOBS)
def test_the_result_does_not_depend_on_the_length_of_blocks(
    *, run_job, parts, whole_run, short_blocks, name
):
    whole = whole_run(name)
    short = run_job(**parts(name))
    assert_same(ObservedSteps().add(short), short, whole)


STOPS = [7, 5, 2, 6, 5]
"""After how many steps each attempt is stopped: before, in and between bad steps."""


@pytest.mark.parametrize("name", ["skipped steps", "applied steps"])
def test_the_result_does_not_depend_on_pauses(
    *, run_job, parts, whole_run, short_blocks, tmp_path, name
):
    """Each attempt is stopped after some steps, and the next one resumes."""
    whole = whole_run(name)
    series = ObservedSteps()
    for stop in [*STOPS, None]:
        calls = iter(range(STEPS + 1))
        stops_here = partial(_is_next, calls, stop)
        run = run_job(stops_here, output_dir=tmp_path / "out", resume=True, **parts(name))
        series.add(run)
    assert_same(series, run, whole)


def _is_next(calls, stop):
    return next(calls) == stop
