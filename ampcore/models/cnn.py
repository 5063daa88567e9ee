"""The Keras MNIST convolutional network, of any depth and width.

Source: https://keras.io/examples/vision/mnist_convnet and its older form mnist_cnn.py.
"""

from typing import Any

from keras import layers

from ampcore.errors import InvalidModel
from ampcore.models.classifier import classifier, dense_stack, image_input
from ampcore.models.registry import Shape, register
from ampcore.spec.model import Cnn


@register("cnn")
def cnn(spec: Cnn, input_shape: Shape, classes: int, policy: Any) -> Any:
    """Valid convolutions → 2 × 2 max-pool → Dropout → (Dense → Dropout)… → logits."""
    inputs, x = image_input(input_shape, policy)
    _check_size(spec, input_shape)
    for index, filters in enumerate(spec.filters, start=1):
        name = f"conv_{index}"
        x = layers.Conv2D(filters, spec.kernel, activation="relu", dtype=policy, name=name)(x)
    x = layers.MaxPooling2D(2, dtype=policy, name="pool")(x)
    if spec.dropout:
        x = layers.Dropout(spec.dropout, dtype=policy, name="dropout")(x)
    x = layers.Flatten(dtype=policy, name="flatten")(x)
    x = dense_stack(x, spec.dense, "relu", spec.dense_dropout, policy)
    return classifier(inputs, x, classes, "cnn")


def _check_size(spec: Cnn, input_shape: Shape) -> None:
    least = len(spec.filters) * (spec.kernel - 1) + 2
    if min(input_shape[:2]) < least:
        raise InvalidModel(
            "model.filters",
            expected=f"images of at least {least} × {least} for {len(spec.filters)} valid "
            f"convolutions of {spec.kernel} × {spec.kernel} and a 2 × 2 pool",
            received=f"images of {input_shape[0]} × {input_shape[1]}",
        )
