"""The architectures of keras.applications, with random weights."""

import inspect
from typing import Any

import keras
from keras import layers

from ampcore.data.dataset import Signature
from ampcore.errors import InvalidModel
from ampcore.models.building_blocks import image_input
from ampcore.models.classification import Classification
from ampcore.models.registry import register
from ampcore.spec.model import KerasApplication

PIXEL_MAX = 255


@register("keras_application", Classification)
def keras_application(spec: KerasApplication, signature: Signature) -> Any:
    """The named architecture over the data's images, ending in logits.

    Its layers have the names that Keras gives them; some Keras numbers anew in each process.
    """
    inputs, x = image_input(signature)
    _check_size(spec, signature.input_shape)
    architecture = getattr(keras.applications, spec.name)
    arguments: dict[str, Any] = {}
    if "include_preprocessing" in inspect.signature(architecture).parameters:
        arguments["include_preprocessing"] = False
    elif spec.name.startswith("EfficientNet"):
        # The first version always divides by 255 itself.
        x = layers.Rescaling(PIXEL_MAX, name="pixels")(x)
    model = architecture(
        weights=None,
        input_tensor=x,
        input_shape=tuple(x.shape[1:]),
        classes=signature.classes,
        classifier_activation=None,
        **arguments,
    )
    return keras.Model(inputs, _logits(model), name=model.name)


def _logits(model: Any) -> Any:
    """The output of the layer that computes the logits.

    The MobileNets end with an identity activation. As the model's output layer only that activation
    would stay in float32, and the logits would be computed in 16 bits.
    """
    last = model.layers[-1]
    return last.input if isinstance(last, layers.Activation) else model.output


def _check_size(spec: KerasApplication, shape: tuple[int, ...]) -> None:
    least = spec.min_image_size
    if min(shape[:2]) < least:
        raise InvalidModel(
            "model.name",
            expected=f"images of at least {least} × {least} for {spec.name}",
            received=f"images of {shape[0]} × {shape[1]}",
        )
