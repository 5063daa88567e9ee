import numpy as np
import pytest
import tensorflow as tf

from ampcore.models.classification import Classification
from ampcore.models.seeds import step_seed
from ampcore.precision import DynamicLossScale, NoLossScale
from ampcore.training.step.loop import ENGINES, STOP_AT_SKIP, engine_name
from ampspec.objectives.optimizer import Adam

SKIPPED = 2


@pytest.fixture(scope="module")
def made(make_step, make_loop):
    """A float16 loop whose first scale is too high."""
    scale = DynamicLossScale(initial=2.0**24, growth_interval=4)
    return make_loop(make_step(scale, policy="mixed_float16", optimizer=Adam(learning_rate=0.01)))


@pytest.fixture
def loop_runner(made):
    return made.begin()


def test_blocks_of_any_size_give_the_same_steps_bit_for_bit(loop_runner, values):
    rows, after = loop_runner.run(0, 20), values(loop_runner.step)
    assert 0 < rows[:, SKIPPED].sum() < 20  # some were skipped, some were not
    loop_runner.begin()
    pieces = [
        loop_runner.run(0, 1),
        loop_runner.run(1, 2),
        loop_runner.run(3, 7),
        loop_runner.run(10, 10),
    ]
    np.testing.assert_array_equal(np.concatenate(pieces), rows)
    np.testing.assert_equal(values(loop_runner.step), after)


def test_the_next_step_uses_the_states_after_the_block(loop_runner):
    first = loop_runner.run(0, 1)
    assert first[0, 1] == 2.0**24
    [state] = loop_runner.states
    assert state.scale == 2.0**23
    assert loop_runner.run(1, 1)[0, 1] == 2.0**23


def test_a_skip_that_halts_changes_nothing_but_the_scale(loop_runner, unchanged):
    with unchanged(loop_runner.step):
        rows = loop_runner.run(0, 20, stop=STOP_AT_SKIP)
    assert rows[:, SKIPPED].tolist() == [1.0]
    assert loop_runner.states[0].scale == 2.0**23


def test_blocks_that_were_halted_give_the_same_steps_bit_for_bit(loop_runner, values):
    rows, after = loop_runner.run(0, 20), values(loop_runner.step)
    loop_runner.begin()
    pieces, done = [], 0
    while done < 20:
        pieces.append(loop_runner.run(done, 20 - done, stop=STOP_AT_SKIP))
        done += len(pieces[-1])
    assert len(pieces) > 2
    assert not any(piece[:-1, SKIPPED].any() for piece in pieces)
    np.testing.assert_array_equal(np.concatenate(pieces), rows)
    np.testing.assert_equal(values(loop_runner.step), after)


def test_an_unknown_engine_of_a_checkpoint_is_the_graph_engine():
    assert [engine_name(name) for name in (*ENGINES, "warp")] == [*ENGINES, "graph"]


def test_the_noise_of_a_step_depends_on_the_jobs_seed_and_its_number_alone():
    seeds = [step_seed(seed, tf.constant(step, tf.int64)) for seed in (0, 1) for step in (0, 1)]
    assert {tuple(seed.numpy()) for seed in seeds} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert seeds[0].dtype == tf.int64


def test_the_seed_of_a_step_is_its_number_wherever_a_block_begins(
    make_step, make_loop, monkeypatch
):
    losses = Classification.losses

    def of_seed(task, weights, non_trainable, batch, seed):
        [loss], after = losses(task, weights, non_trainable, batch, seed)
        return [0 * loss + tf.cast(seed[1], tf.float32)], after

    monkeypatch.setattr(Classification, "losses", of_seed)
    loop_runner = make_loop(make_step(NoLossScale()))
    assert loop_runner.run(5, 3)[:, 0].tolist() == [5, 6, 7]
    assert loop_runner.run(20, 1)[:, 0].tolist() == [20]
