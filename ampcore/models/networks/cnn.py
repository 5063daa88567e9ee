"""The Keras MNIST convolutional network, of any depth and width.

Source: https://keras.io/examples/vision/mnist_convnet and its older form mnist_cnn.py.
"""

from typing import Any

from ampcore.data.dataset import Signature
from ampcore.models.classification import Classification
from ampcore.models.networks.building_blocks import build_networks, check_images
from ampcore.models.registry import register
from ampspec.errors import InvalidModel
from ampspec.models.model import Cnn


@register("cnn", Classification)
def cnn(spec: Cnn, signature: Signature) -> Any:
    """Valid convolutions → 2 × 2 max-pool → Dropout → (Dense → Dropout)… → logits."""
    check_images(signature)
    _check_size(spec, signature.input_shape)
    return build_networks(spec, signature)


def _check_size(spec: Cnn, shape: tuple[int, ...]) -> None:
    least = len(spec.filters) * (spec.kernel - 1) + 2
    if min(shape[:2]) < least:
        raise InvalidModel(
            "model.filters",
            expected=f"images of at least {least} × {least} for {len(spec.filters)} valid "
            f"convolutions of {spec.kernel} × {spec.kernel} and a 2 × 2 pool",
            received=f"images of {shape[0]} × {shape[1]}",
        )
