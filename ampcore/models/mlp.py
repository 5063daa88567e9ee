"""A multilayer perceptron over flattened examples."""

from typing import Any

import keras
from keras import layers

from ampcore.data.dataset import Signature
from ampcore.errors import InvalidModel
from ampcore.models.classification import Classification
from ampcore.models.classifier import classifier, dense_stack
from ampcore.models.registry import register
from ampcore.spec.model import Mlp


@register("mlp", Classification)
def mlp(spec: Mlp, signature: Signature) -> Any:
    """Flatten → (Dense → Dropout) for each of `hidden` → logits."""
    if signature.input_dtype != "float32":
        raise InvalidModel(
            "model.kind",
            expected="float32 examples for a multilayer perceptron",
            received=f"{signature.input_dtype} examples of shape {list(signature.input_shape)}",
        )
    inputs = keras.Input(signature.input_shape, dtype="float32", name="examples")
    flat = layers.Flatten(name="flatten")(inputs) if len(inputs.shape) > 2 else inputs
    features = dense_stack(flat, spec.hidden, spec.activation, spec.dropout)
    return classifier(inputs, features, signature.classes, "mlp")
