import keras
import numpy as np
import pytest

from ampcore import data
from ampcore.data import ArrayExamples
from ampcore.training.evaluation.evaluate import Evaluator
from ampspec.data.data import Digits


@pytest.fixture(scope="module")
def validation():
    return data.load(Digits(validation_split=0.2)).validation  # 360 examples


@pytest.fixture
def task(make_task):
    return make_task()


def constant(task, value):
    """Weights of the same shapes, all with this value."""
    return [[np.full(part.shape, value, np.float32) for part in own] for own in task.weights()]


@pytest.mark.parametrize("batch_size", [1000, 360, 100, 7])
def test_the_evaluation_is_exact_for_every_batch_size(task, validation, batch_size):
    found = Evaluator(task, validation, batch_size)(task.weights())
    model = task.networks[0].model
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"]
    )
    loss, accuracy = model.evaluate(
        validation.arrays.x, validation.arrays.y, verbose=0, batch_size=360
    )
    assert found == pytest.approx({"val_loss": loss, "val_accuracy": accuracy}, rel=1e-5)


def test_the_evaluation_uses_current_weights_without_a_second_trace(task, validation):
    evaluate = Evaluator(task, validation, 100)
    before = evaluate(task.weights())
    for variable in task.networks[0].model.trainable_variables:
        variable.assign(np.zeros(variable.shape))
    after = evaluate(task.weights())
    assert before["val_loss"] != after["val_loss"]
    assert after["val_loss"] == pytest.approx(np.log(10))
    assert evaluate.function.experimental_get_tracing_count() == 1


def test_the_evaluation_uses_the_given_weights_and_not_those_of_the_model(task, validation):
    found = Evaluator(task, validation, 100)(constant(task, 0.0))
    assert found["val_loss"] == pytest.approx(np.log(10))


def test_the_loss_of_nan_weights_is_nan_with_a_short_batch(task, validation):
    odd = ArrayExamples(validation.arrays.map(lambda part: part[:3]))
    assert np.isnan(Evaluator(task, odd, 2)(constant(task, np.nan))["val_loss"])


def test_the_evaluation_has_every_metric_of_the_task(gan, validation):
    task = gan()
    found = Evaluator(task, validation, 100)(task.weights())
    assert set(found) == {f"val_{name}" for name in task.metrics}
    parts = found["val_loss/generator"] + found["val_loss/discriminator"]
    assert found["val_loss"] == pytest.approx(parts)
