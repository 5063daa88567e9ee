"""A run with a moving average of its weights: what it evaluates and saves."""

import keras
import numpy as np
import pytest

from ampcore import data
from ampspec.data.data import Digits
from ampspec.telemetry import EventType

EMA = 0.9
JOB = {
    "optimizer": {"kind": "momentum", "learning_rate": 0.1, "ema": EMA},
    "train": {"epochs": 2},
}


@pytest.fixture(scope="module")
def averaged(run_job, tmp_path_factory):
    run = run_job(output_dir=tmp_path_factory.mktemp("averaged"), **JOB)
    return run, keras.saving.load_model(run.result.model_file)


def test_the_saved_model_is_the_average_of_the_weights_after_each_step(
    averaged, make_runner, one_step_blocks
):
    runner = make_runner(**JOB)
    runner.use_engine("graph")
    model, average = runner.networks[0].model, None
    for step in range(10):
        runner.run_block(step)
        weights = [weight.astype(np.float64) for weight in model.get_weights()]
        average = average or weights
        pairs = zip(average, weights, strict=True)
        average = [EMA * old + (1 - EMA) * new for old, new in pairs]
    run, saved = averaged
    for found, expected, last in zip(saved.get_weights(), average, weights, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
        assert not np.allclose(found, last, rtol=1e-3)
    assert run.steps["loss"][-1] < run.steps["loss"][0]


def test_the_evaluation_uses_the_average(averaged):
    run, saved = averaged
    digits = data.load(Digits())
    saved.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"]
    )
    loss, accuracy = saved.evaluate(
        digits.validation.arrays.x, digits.validation.arrays.y, verbose=0, batch_size=360
    )
    assert run.result.val_loss == pytest.approx(loss, rel=1e-5)
    assert run.result.val_accuracy == pytest.approx(accuracy)


def test_the_steps_equal_those_of_a_run_without_an_average(averaged, run_job):
    plain = run_job(**JOB | {"optimizer": {"kind": "momentum", "learning_rate": 0.1}})
    run, _ = averaged
    assert run.without_times == plain.without_times
    evaluations = [r.of(EventType.EVALUATION)[0].data["val_loss"] for r in (run, plain)]
    assert evaluations[0] != evaluations[1]
