import keras
import numpy as np
import pytest

from ampcore import data
from ampcore.data import Dataset
from ampcore.spec.data import Digits
from ampcore.train.evaluate import Evaluator


@pytest.fixture
def validation():
    return data.load(Digits(validation_split=0.2), seed=0)  # 360 examples


@pytest.mark.parametrize("batch_size", [1000, 360, 100, 7])
def test_the_evaluation_is_exact_however_the_batches_fall(make_step, validation, batch_size):
    model = make_step().model
    found = Evaluator(model, validation, batch_size)()
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"]
    )
    loss, accuracy = model.evaluate(validation.x_val, validation.y_val, verbose=0, batch_size=360)
    assert found.val_loss == pytest.approx(loss, rel=1e-5)
    assert found.val_accuracy == pytest.approx(accuracy)


def test_it_sees_the_weights_as_they_are_now_without_a_second_trace(make_step, validation):
    model = make_step().model
    evaluate = Evaluator(model, validation, 100)
    before = evaluate()
    model.set_weights([np.zeros_like(weight) for weight in model.get_weights()])
    after = evaluate()
    assert before.val_loss != after.val_loss
    assert after.val_loss == pytest.approx(np.log(10))
    assert evaluate.function.experimental_get_tracing_count() == 1


def test_padding_adds_nothing_even_where_the_model_is_broken(make_step, validation):
    model = make_step().model
    odd = Dataset(
        validation.x_train, validation.y_train, validation.x_val[:3], validation.y_val[:3], 10
    )
    model.set_weights([np.full_like(weight, np.nan) for weight in model.get_weights()])
    assert np.isnan(Evaluator(model, odd, 2)().val_loss)
