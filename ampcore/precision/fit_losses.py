"""Lets `model.fit` add up the losses of float16 layers with the float32 loss of the model."""

from typing import Any

import keras

Tensor = Any


def add_up_layer_losses_in_float32(optimizer_type: type[Any]) -> None:
    """Let models with such an optimizer add up `add_loss` and regularizers in float32.

    Keras stacks the losses of a model without a common dtype, and TensorFlow refuses that. The
    method that Keras calls for each of them is replaced once; models with other optimizers still
    do what Keras does.

    Args:
        optimizer_type: The class of the optimizer that a model is compiled with.
    """
    aggregate = keras.Model._aggregate_additional_loss
    if getattr(aggregate, "adds_up_in_float32", False):
        return

    def aggregate_in_float32(model: Any, loss: Tensor) -> Tensor:
        if isinstance(getattr(model, "optimizer", None), optimizer_type):
            loss = keras.ops.cast(loss, "float32")
        return aggregate(model, loss)

    aggregate_in_float32.adds_up_in_float32 = True  # type: ignore[attr-defined]
    keras.Model._aggregate_additional_loss = aggregate_in_float32
