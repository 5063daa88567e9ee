import keras
import numpy as np
import pytest

from ampcore import models
from ampcore.errors import InvalidModel
from ampcore.spec import Reason
from ampcore.spec.availability import MODELS
from ampcore.spec.model import Cnn, LeNet5, Mlp

MNIST = (28, 28, 1)
ALL = [Mlp(), Cnn(), LeNet5()]
FLOAT32 = keras.DTypePolicy("float32")
FLOAT16 = keras.DTypePolicy("mixed_float16")


def test_a_spec_may_name_exactly_the_models_that_can_be_built():
    assert set(models.BUILDERS) == set(MODELS)


@pytest.mark.parametrize(
    ("spec", "shape", "parameters"),
    [
        (Cnn(), MNIST, 1_199_882),
        (LeNet5(), (32, 32, 1), 61_706),
        (LeNet5(), MNIST, 61_706),
        (Mlp(), MNIST, 784 * 64 + 64 + 64 * 64 + 64 + 64 * 10 + 10),
        (Mlp(hidden=(4096, 4096)), (784,), 20_037_642),
        (Mlp(hidden=()), (5,), 60),
    ],
)
def test_parameter_counts_are_the_published_ones(spec, shape, parameters):
    assert models.build(spec, shape, 10, FLOAT32).count_params() == parameters


@pytest.mark.parametrize("spec", ALL, ids=lambda spec: spec.kind)
@pytest.mark.parametrize("shape", [(28, 28), MNIST, (28, 28, 3)], ids=str)
@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_images_become_finite_float32_logits(spec, shape, policy):
    model = models.build(spec, shape, 7, keras.DTypePolicy(policy))
    logits = model(np.ones((2, *shape), np.float32))
    assert logits.shape == (2, 7)
    assert logits.dtype == "float32"
    assert np.isfinite(logits).all()


@pytest.mark.parametrize("spec", ALL, ids=lambda spec: spec.kind)
def test_every_layer_but_the_last_and_the_resize_computes_in_the_policy(spec):
    model = models.build(spec, (28, 28), 10, FLOAT16)
    compute = {layer.name: layer.compute_dtype for layer in model.layers[1:]}
    float32 = {"predictions", "resize"} & compute.keys()
    assert model.layers[-1].name == "predictions"
    assert {name for name, dtype in compute.items() if dtype == "float32"} == float32
    assert all(weight.dtype == "float32" for weight in model.weights)


def test_building_leaves_the_global_policy_alone():
    models.build(Cnn(), MNIST, 10, FLOAT16)
    assert keras.config.dtype_policy().name == "float32"


def test_dropout_is_there_only_when_asked_for():
    names = [layer.name for layer in models.build(Cnn(dropout=0.0), MNIST, 10, FLOAT32).layers]
    assert "dropout" not in names
    assert "dense_dropout_1" in names


def test_names_are_the_same_however_often_a_model_is_built():
    first, second = (models.build(Cnn(), MNIST, 10, FLOAT32) for _ in range(2))
    assert [weight.path for weight in first.weights] == [weight.path for weight in second.weights]


def test_images_that_are_too_small_are_told_with_the_field_to_change():
    with pytest.raises(InvalidModel, match=r"model\.filters: expected images of at least 8 × 8"):
        models.build(Cnn(filters=(4, 4, 4)), (7, 9, 1), 10, FLOAT32)
    assert models.build(Cnn(filters=(4, 4, 4)), (8, 8, 1), 10, FLOAT32).count_params() > 0


@pytest.mark.parametrize("spec", [Cnn(), LeNet5()], ids=lambda spec: spec.kind)
@pytest.mark.parametrize("shape", [(784,), (4, 8, 8, 1)], ids=str)
def test_what_is_no_image_is_refused(spec, shape):
    with pytest.raises(InvalidModel, match=r"expected images") as caught:
        models.build(spec, shape, 10, FLOAT32)
    assert caught.value.field == "model.kind"
    assert caught.value.reason is Reason.INVALID_SPEC
