"""The losses that layers make: regularizers and `add_loss`, in float32 whatever the layers are in.

In 16 bits the sum over a large output or weight overflows, or loses its small terms.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import tensorflow as tf

from ampcore.keras_internals import flatten_layers
from ampcore.precision.layers.in_place import replaced_attributes
from ampspec.precision.precision import DTYPES_OF_16_BITS

Tensor = Any


@contextmanager
def float32_regularizers(model: Any) -> Iterator[None]:
    """A context in which regularizers get what they penalize as float32; only tracing needs it."""
    activities = [
        (layer, _in_float32(layer.activity_regularizer))
        for layer in flatten_layers(model)
        if getattr(layer, "activity_regularizer", None) is not None
        and layer.compute_dtype in DTYPES_OF_16_BITS
    ]
    weights = [
        (variable, _in_float32(variable.regularizer))
        for variable in model.trainable_variables
        if variable.regularizer is not None and variable.dtype in DTYPES_OF_16_BITS
    ]
    with ExitStack() as stack:
        stack.enter_context(replaced_attributes("activity_regularizer", activities))
        stack.enter_context(replaced_attributes("regularizer", weights))
        yield


def sum_in_float32(losses: Sequence[Tensor]) -> list[Tensor]:
    """The losses as float32 scalars; one with several values is added up, as in `fit`."""
    return [tf.reduce_sum(tf.cast(loss, tf.float32)) for loss in losses]


def _in_float32(regularizer: Any) -> Any:
    def penalty(values: Tensor) -> Tensor:
        return regularizer(tf.cast(tf.convert_to_tensor(values), tf.float32))

    return penalty
