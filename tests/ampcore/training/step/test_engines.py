"""The three engines: the same steps, traced once and compiled once."""

import json
import os
import subprocess
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers

from ampcore.precision import DynamicLossScale, NoLossScale
from ampcore.training.step import loop
from ampcore.training.step.clip import Clip
from ampcore.training.step.loop import ENGINES, STOP_AT_SKIP
from ampcore.training.step.train_step import TrainStep
from ampspec.models.model import Mlp
from ampspec.objectives.optimizer import Adam, Sgd

COMPILED = [engine for engine in ENGINES if engine != "graph"]
SKIPPED = 2
BAD = (5, 9)
"""Batches that are skipped."""


NO_UPDATE = Sgd(learning_rate=1e-30)
"""Its updates are too small to change a weight."""


@pytest.fixture(scope="module")
def engines(make_step, make_task, make_loop):
    """Loops by engine; without dropout, whose noise differs under XLA."""
    made = {}
    for engine in ENGINES:
        scale = DynamicLossScale(initial=2.0**10, growth_interval=3)
        task = make_task(Mlp(hidden=(16,)))
        step = make_step(scale, task=task, optimizer=Adam(learning_rate=0.01))
        made[engine] = make_loop(step, engine, BAD)
    return made


@pytest.fixture(params=ENGINES)
def loop_runner(request, engines):
    return engines[request.param].begin()


@pytest.mark.parametrize("engine", COMPILED)
def test_a_compiled_engine_trains_as_the_graph_engine_does(engines, values, engine):
    graph, other = engines["graph"].begin(), engines[engine].begin()
    expected, found = graph.run(0, 16), other.run(0, 16)
    assert np.flatnonzero(expected[:, SKIPPED]).tolist() == list(BAD)
    applied = expected[:, SKIPPED] == 0
    # The loss and the norm of a bad batch depend on the order of operations.
    np.testing.assert_allclose(found[applied], expected[applied], rtol=1e-4)
    np.testing.assert_array_equal(found[~applied][:, [1, 2, 4]], expected[~applied][:, [1, 2, 4]])
    for mine, theirs in zip(values(other.step), values(graph.step), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-5)


def assert_equal_by_xla(loops, values):
    expected, found = (made.run(0, 4) for made in loops)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    for mine, theirs in zip(*(values(made.step) for made in reversed(loops)), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_xla_updates_the_rows_of_a_table_as_the_graph_engine_does(
    make_step, make_clicks_loop, clicks, values
):
    how = {"optimizer": Adam(learning_rate=0.01, ema=0.9), "accumulate": 2}
    steps = [make_step(DynamicLossScale(), task=clicks(), **how) for _ in range(2)]
    loops = [make_clicks_loop(*pair) for pair in zip(steps, ("graph", "xla_loop"), strict=True)]
    assert_equal_by_xla(loops, values)


@pytest.mark.slow
def test_xla_updates_statistics_and_clips_as_the_graph_engine_does(
    make_step, make_loop, task_of, values
):
    def model():
        keras.utils.set_random_seed(0)
        inputs = keras.Input((8, 8, 1))
        x = layers.Dense(8, name="dense")(layers.Flatten()(inputs))
        x = layers.BatchNormalization(name="norm")(x)
        return keras.Model(inputs, layers.Dense(10, name="logits")(x))

    how = {"clips": [Clip(norm=0.1, value=0.01)], "accumulate": 2}
    steps = [make_step(DynamicLossScale(), task=task_of(model()), **how) for _ in range(2)]
    loops = [make_loop(*pair) for pair in zip(steps, ("graph", "xla_loop"), strict=True)]
    assert_equal_by_xla(loops, values)


def test_the_steps_of_a_block_train_on_consecutive_batches(make_step, make_task, make_loop, digits):
    step = make_step(NoLossScale(), task=make_task(Mlp(hidden=(16,))), optimizer=NO_UPDATE)
    rows = make_loop(step).run(3, 4)
    logits = step.task.networks[0].model(digits.train.arrays.x).numpy()
    right = logits[np.arange(len(logits)), digits.train.arrays.y]
    losses = np.log(np.exp(logits).sum(axis=1)) - right
    expected = [losses[64 * batch : 64 * (batch + 1)].mean() for batch in (3, 4, 5, 6)]
    np.testing.assert_allclose(rows[:, 0], expected, rtol=1e-5)


def test_a_skip_that_halts_is_the_last_step_of_its_block(loop_runner, unchanged):
    assert len(loop_runner.run(0, 5, stop=STOP_AT_SKIP)) == 5
    with unchanged(loop_runner.step):
        rows = loop_runner.run(5, 10, stop=STOP_AT_SKIP)
    assert rows[:, SKIPPED].tolist() == [1.0]
    assert loop_runner.states[0].scale == rows[0, 1] / 2
    rows = loop_runner.run(6, 10, stop=STOP_AT_SKIP)
    assert rows[:, SKIPPED].tolist() == [0.0, 0.0, 0.0, 1.0]


def test_a_skip_that_does_not_halt_does_not_end_its_block(loop_runner):
    assert len(loop_runner.run(3, 5)) == 5


def test_a_compiled_loop_runs_no_more_steps_than_it_can_record(make_step, make_loop, monkeypatch):
    monkeypatch.setattr(loop, "MAX_STEPS", 3)
    made = make_loop(make_step(), "xla_loop")
    assert [len(made.run(first, count)) for first, count in [(0, 2), (2, 3), (5, 8)]] == [2, 3, 3]


def test_a_loop_is_traced_once_for_blocks_of_every_start_and_size(loop_runner):
    for first, count in [(0, 1), (1, 3), (4, 8)]:
        loop_runner.run(first, count)
    assert loop_runner.loop.function.experimental_get_tracing_count() == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_the_step_is_traced_once_a_run(run_job, monkeypatch, engine):
    traces, traced = [], TrainStep.__call__

    def counted(*given):
        traces.append(given)
        return traced(*given)

    monkeypatch.setattr(TrainStep, "__call__", counted)
    run = run_job(runtime={"engine": engine}, train={"epochs": 3})
    assert len(run.blocks) > 1
    assert run.result.engine == engine
    assert len(traces) == 1


@pytest.mark.xdist_group("python_commands")
def test_xla_compiles_once_for_blocks_of_every_start_and_size(python_commands, tmp_path):
    child = Path(__file__).with_name("compiling_child.py")
    # XLA writes every program that it compiles to a file.
    flags = f"--xla_dump_to={tmp_path} --xla_dump_hlo_as_text --xla_dump_hlo_module_re=.*"
    environment = os.environ | {"XLA_FLAGS": flags, "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [python_commands / "python", str(child), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout.splitlines()[-1])
    assert set(counts) == set(COMPILED)
    for first, later in counts.values():
        assert first > 0
        assert later == first
