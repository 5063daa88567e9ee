"""Layers of range samples, for tests of the server and of the client."""

import numpy as np

from ampspec.telemetry.ranges.exponent_histogram import ExponentHistogram
from ampspec.telemetry.ranges.range_samples import LayerRange, TensorKind, TensorRange


def layer(name, activations, gradients, dtype="float16"):
    """A layer whose outputs and weight gradients have these values."""
    values = {TensorKind.ACTIVATIONS: activations, TensorKind.WEIGHT_GRADIENTS: gradients}
    tensors = {
        kind: TensorRange(ExponentHistogram.of(np.array(own)), 0.0, 1.0)
        for kind, own in values.items()
    }
    return LayerRange("model", name, "Dense", dtype, tensors)


GOOD = layer("good", [0.5, 2.0], [0.01, 0.02])
HOT = layer("hot", [0.5, 1e6], [0.01, 0.02])
"""Its outputs overflow in float16."""
