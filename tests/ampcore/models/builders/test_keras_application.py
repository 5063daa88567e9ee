from typing import get_args

import keras
import numpy as np
import pytest

from ampcore.models.weight_names import named_weights
from ampspec.errors import InvalidModel
from ampspec.models.model import Application, KerasApplication

NAMES = get_args(Application)


def test_a_spec_may_name_exactly_the_models_of_keras_applications():
    found = {name for name, member in vars(keras.applications).items() if callable(member)}
    assert set(NAMES) == found


def keras_message(name, width, height):
    """What Keras says about images of this size."""
    try:
        getattr(keras.applications, name)(weights=None, input_shape=(width, height, 3))
    except ValueError as error:
        return str(error)
    return "no error"


def test_the_minimum_image_size_is_that_of_keras():
    sizes = {name: KerasApplication(name=name).min_image_size for name in NAMES}
    messages = {name: keras_message(name, size - 1, size) for name, size in sizes.items()}
    other = {
        name: message
        for name, message in messages.items()
        if f"at least {sizes[name]}x{sizes[name]}" not in message
    }
    assert other == {}


@pytest.mark.parametrize("name", ["VGG16", "Xception"])
def test_images_that_are_too_small_are_refused_with_the_field_to_change(build, images, name):
    least = KerasApplication(name=name).min_image_size
    with pytest.raises(InvalidModel, match=rf"at least {least} × {least} for {name}") as caught:
        build(KerasApplication(name=name), images(least, least - 1, 3))
    assert caught.value.field == "model.name"


@pytest.mark.parametrize("name", ["MobileNet", "EfficientNetB0"])
def test_logits_are_computed_in_float32_and_the_rest_in_the_policy(build, images, name):
    [network] = build(
        KerasApplication(name=name), images(32, 32, classes=7), "mixed_float16"
    ).networks
    computing = [layer for layer in network.model.layers if layer.weights]
    assert computing[-1].compute_dtype == "float32"
    assert computing[-2].compute_dtype == "float16"
    logits = network.model(np.ones((2, 32, 32), np.float32))
    assert logits.shape == (2, 7)
    assert np.isfinite(logits).all()


def test_pixels_from_0_to_1_are_not_divided_by_255_again(build, images):
    [network] = build(KerasApplication(name="EfficientNetB0"), images(32, 32, 3)).networks
    scales = [
        layer.scale for layer in network.model.layers if isinstance(layer, keras.layers.Rescaling)
    ]
    assert np.prod(scales) == pytest.approx(1.0)


def test_layers_have_the_same_names_however_many_models_the_process_has_built(build, images):
    data, spec = images(75, 75, 3), KerasApplication(name="Xception")
    first, second = (
        [weight.name for weight in named_weights(build(spec, data).networks)] for _ in range(2)
    )
    assert first == second
    assert {"conv2d/kernel", "conv2d_1/kernel", "batch_normalization/gamma"} < {*first}
