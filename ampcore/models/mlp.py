"""A multilayer perceptron over flattened examples."""

from typing import Any

import keras
from keras import layers

from ampcore.models.classifier import classifier, dense_stack
from ampcore.models.registry import Shape, register
from ampcore.spec.model import Mlp


@register("mlp")
def mlp(spec: Mlp, input_shape: Shape, classes: int, policy: Any) -> Any:
    """Flatten → (Dense → Dropout) for each of `hidden` → logits."""
    inputs = keras.Input(input_shape, dtype="float32", name="examples")
    flat = layers.Flatten(dtype=policy, name="flatten")(inputs) if len(input_shape) > 1 else inputs
    features = dense_stack(flat, spec.hidden, spec.activation, spec.dropout, policy)
    return classifier(inputs, features, classes, "mlp")
