"""LeNet-5 with ReLU and max-pooling, as MindSpore trains it.

Source: LeCun et al. 1998, "Gradient-based learning applied to document recognition".
"""

from typing import Any

from keras import layers

from ampcore.models.classifier import classifier, dense_stack, image_input
from ampcore.models.registry import Shape, register
from ampcore.spec.model import LeNet5

SIZE = (32, 32)


@register("lenet5")
def lenet5(spec: LeNet5, input_shape: Shape, classes: int, policy: Any) -> Any:
    """Conv 6 → pool → Conv 16 → pool → 120 → 84 → logits; 61,706 parameters on 32 × 32 × 1."""
    inputs, x = image_input(input_shape, policy)
    if input_shape[:2] != SIZE:
        # Interpolation in 16 bits would throw pixel values away before the first layer.
        x = layers.Resizing(*SIZE, dtype="float32", name="resize")(x)
    for index, filters in enumerate((6, 16), start=1):
        name = f"conv_{index}"
        x = layers.Conv2D(filters, 5, activation="relu", dtype=policy, name=name)(x)
        x = layers.MaxPooling2D(2, dtype=policy, name=f"pool_{index}")(x)
    x = layers.Flatten(dtype=policy, name="flatten")(x)
    x = dense_stack(x, (120, 84), "relu", 0.0, policy)
    return classifier(inputs, x, classes, "lenet5")
