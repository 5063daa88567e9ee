"""Keras optimizers by the spec's `kind`.

Clipping is not theirs: the training step clips after unscaling, before the update.
"""

from collections.abc import Callable
from typing import Any

from keras import optimizers

from ampcore.spec.optimizer import OptimizerSpec

_OURS = {"kind", "schedule", "clip_norm", "clip_value", "ema"}

OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "sgd": optimizers.SGD,
    "momentum": optimizers.SGD,
    "adam": optimizers.Adam,
    "adamw": optimizers.AdamW,
    "rmsprop": optimizers.RMSprop,
}


def build(spec: OptimizerSpec) -> Any:
    """A keras.Optimizer; what its class takes has the same names in the spec."""
    return OPTIMIZERS[spec.kind](**spec.model_dump(exclude=_OURS))
