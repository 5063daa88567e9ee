"""LeNet-5 with ReLU and max-pooling, as MindSpore trains it.

Source: LeCun et al. 1998, "Gradient-based learning applied to document recognition".
"""

from typing import Any

from keras import layers

from ampcore.data.dataset import Signature
from ampcore.models.classification import Classification
from ampcore.models.classifier import classifier, dense_stack, image_input
from ampcore.models.registry import register
from ampcore.spec.model import LeNet5

SIZE = (32, 32)


@register("lenet5", Classification)
def lenet5(spec: LeNet5, signature: Signature) -> Any:
    """Conv 6 → pool → Conv 16 → pool → 120 → 84 → logits; 61,706 parameters on 32 × 32 × 1."""
    inputs, x = image_input(signature)
    if signature.input_shape[:2] != SIZE:
        x = layers.Resizing(*SIZE, name="resize")(x)
    for index, filters in enumerate((6, 16), start=1):
        x = layers.Conv2D(filters, 5, activation="relu", name=f"conv_{index}")(x)
        x = layers.MaxPooling2D(2, name=f"pool_{index}")(x)
    x = dense_stack(layers.Flatten(name="flatten")(x), (120, 84), "relu", 0.0)
    return classifier(inputs, x, signature.classes, "lenet5")
