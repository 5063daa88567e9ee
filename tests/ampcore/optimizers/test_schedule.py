import keras
import numpy as np
import pytest
import tensorflow as tf

from ampcore import optimizers
from ampcore.optimizers import schedule
from ampspec.objectives.optimizer import Constant, Cosine, Exponential, Sgd, Step

RATE, TOTAL = 0.8, 10


def rates(spec, steps, total=TOTAL):
    built = schedule.build(spec, RATE, total)
    return [float(built(tf.constant(step, tf.int64))) for step in steps]


def test_a_constant_rate_is_a_plain_number():
    assert schedule.build(Constant(), RATE, TOTAL) == RATE


@pytest.mark.parametrize(
    ("spec", "golden"),
    [
        (Constant(warmup_steps=4), [0.2, 0.4, 0.6, 0.8, 0.8, 0.8, 0.8]),
        (Constant(warmup_steps=1), [0.8] * 7),
        # 0.8 · ½ (1 + cos(π step / 10))
        (Cosine(), [0.8, 0.780423, 0.723607, 0.635114, 0.523607, 0.4, 0.276393]),
        # Half of 0.8 stays; over the 6 steps after the warm-up.
        (
            Cosine(warmup_steps=4, final_fraction=0.5),
            [0.2, 0.4, 0.6, 0.8, 0.8, 0.773205, 0.7],
        ),
        # It ends at step 4, not with the run at step 10, and stays there.
        (
            Cosine(end_step=4, final_fraction=0.25),
            [0.8, 0.712132, 0.5, 0.287868, 0.2, 0.2, 0.2],
        ),
        (Cosine(end_step=6, warmup_steps=4), [0.2, 0.4, 0.6, 0.8, 0.8, 0.4, 0.0]),
        (
            Exponential(decay_rate=0.25, decay_steps=2),
            [0.8, 0.4, 0.2, 0.1, 0.05, 0.025, 0.0125],
        ),
        (
            Exponential(decay_rate=0.25, decay_steps=2, warmup_steps=2),
            [0.4, 0.8, 0.8, 0.4, 0.2, 0.1, 0.05],
        ),
        (Step(boundaries=(2, 5), factor=0.5), [0.8, 0.8, 0.4, 0.4, 0.4, 0.2, 0.2]),
        (
            Step(boundaries=(2, 5), factor=0.5, warmup_steps=2),
            [0.4, 0.8, 0.4, 0.4, 0.4, 0.2, 0.2],
        ),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_each_step_has_the_golden_learning_rate(spec, golden):
    assert rates(spec, range(7)) == pytest.approx(golden, rel=1e-5)


@pytest.mark.parametrize("warmup_steps", [0, 3])
def test_a_cosine_schedule_ends_with_the_run_and_stays_constant(warmup_steps):
    spec = Cosine(final_fraction=0.25, warmup_steps=warmup_steps)
    assert rates(spec, [TOTAL, TOTAL + 1, 10 * TOTAL]) == pytest.approx([0.2] * 3)


@pytest.mark.parametrize("spec", [Constant, Cosine, Exponential])
def test_a_warmup_longer_than_the_run_increases_until_the_end(spec):
    found = rates(spec(warmup_steps=2 * TOTAL), range(TOTAL))
    assert found == pytest.approx([RATE * (step + 1) / 20 for step in range(TOTAL)])


def test_step_boundaries_beyond_float32_precision_are_exact():
    boundary = 2**40 + 1
    spec = Step(boundaries=(boundary,), factor=0.5)
    assert rates(spec, [boundary - 1, boundary]) == pytest.approx([0.8, 0.4])


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (Cosine(), lambda step, total: RATE * 0.5 * (1 + np.cos(np.pi * step / total))),
        (Exponential(decay_steps=2**28), lambda step, total: RATE * 0.96 ** (step / 2**28)),
        (Constant(warmup_steps=2**29), lambda step, total: RATE * min(1, (step + 1) / 2**29)),
    ],
    ids=["cosine", "exponential", "warmup"],
)
def test_the_rate_of_a_very_late_step_has_float32_precision(spec, expected):
    total = 2**30
    steps = [2**24 + 1, 2**27 + 3, 2**29 - 5, 2**29 + 7]
    found = rates(spec, steps, total)
    assert found == pytest.approx([expected(step, total) for step in steps], rel=1e-6)


def test_an_optimizer_advances_its_schedule_with_its_own_updates_only():
    optimizer = optimizers.build(Sgd(learning_rate=RATE, schedule=Constant(warmup_steps=4)), TOTAL)
    weight = keras.Variable([1.0])
    optimizer.build([weight])
    found = []
    for _ in range(3):
        # Read twice: reading changes nothing.
        found.append([float(optimizer.learning_rate), float(optimizer.learning_rate)])
        optimizer.apply([tf.constant([0.0])], [weight])
    assert found == [pytest.approx([rate, rate]) for rate in (0.2, 0.4, 0.6)]


def test_a_thousand_boundaries_need_no_more_operations_than_one():
    def operations(boundaries):
        built = schedule.build(Step(boundaries=boundaries), RATE, TOTAL)
        traced = tf.function(built, autograph=False).get_concrete_function(
            tf.TensorSpec([], tf.int64)
        )
        return len(traced.graph.get_operations())

    assert operations(range(1024)) == operations((5,))


def test_a_warmup_that_was_saved_with_the_earlier_name_of_its_decay_is_loaded():
    config = {"after": 0.5, "learning_rate": 1.0, "warmup_steps": 3}
    assert schedule.Warmup.from_config(config).get_config() == {
        "decay": 0.5,
        "learning_rate": 1.0,
        "warmup_steps": 3,
    }
