"""The architectures of keras.applications, with random weights."""

import inspect
import re
from typing import Any, Final

import keras
from keras import layers

from ampcore.data.dataset import Signature
from ampcore.models.builders.from_description import image_input
from ampcore.models.classification import Classification
from ampcore.models.registry import register
from ampspec.errors import InvalidModel
from ampspec.models.model import KerasApplication

PIXEL_MAX = 255
AUTO_NAME: Final = re.compile(r"(?P<stem>.+?)(?:_(?P<number>\d+))?")


@register("keras_application", Classification)
def keras_application(spec: KerasApplication, signature: Signature) -> Any:
    """The named architecture over the data's images, ending in logits.

    Its layers have the names that Keras gives them in a new process, where its counters are 0.
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
    _number_from_zero(model)
    return keras.Model(inputs, _logits(model), name=model.name)


def _number_from_zero(model: Any) -> None:
    """Rename unnamed layers, so that each process finds the same weights in a file."""
    unnamed = []
    for layer in model.layers:
        match = AUTO_NAME.fullmatch(layer.name)
        if match and match["stem"].replace("_", "") == type(layer).__name__.lower():
            unnamed.append((layer, match["stem"], int(match["number"] or 0)))
    first: dict[str, int] = {}
    for _, stem, number in unnamed:
        first[stem] = min(first.get(stem, number), number)
    for layer, stem, number in unnamed:
        offset = number - first[stem]
        layer.name = f"{stem}_{offset}" if offset else stem


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
