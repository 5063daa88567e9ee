"""Clips the unscaled gradients of a network, by their global norm and by value."""

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ampcore.precision import exact_norm, map_values
from ampcore.precision.finite import scale_to_norm

Tensor = Any


@dataclass(frozen=True)
class Clip:
    """Limits of a network's unscaled gradients; None sets no limit.

    Args:
        norm: The largest global norm.
        value: The largest magnitude of an element.
    """

    norm: float | None = None
    value: float | None = None

    def reported_norm(self, grads: list[Any], norm: Tensor) -> Tensor:
        """The norm that the step's row holds.

        Args:
            grads: Unscaled and not clipped yet.
            norm: Their global norm, infinite if its squares overflowed; with a limit that is
                harmless, and the true norm is returned.
        """
        if self.norm is None and self.value is None:
            return norm
        exact = exact_norm(grads, norm)
        return tf.where(tf.math.is_finite(exact), exact, norm)

    def __call__(
        self, grads: list[Any], norm: Tensor, norm_inputs: list[Any] | None = None
    ) -> list[Any]:
        """Clip the gradients to the limits; non-finite ones stay non-finite.

        Args:
            grads: Unscaled.
            norm: Their global norm.
            norm_inputs: The tensors with this norm, if it is not that of `grads` alone.
        """
        if self.norm is not None:
            exact = exact_norm(grads if norm_inputs is None else norm_inputs, norm)
            grads = scale_to_norm(grads, exact, self.norm)
        if self.value is not None:
            limit = self.value
            grads = map_values(lambda value: _clip_by_value(value, limit), grads)
        return grads


def _clip_by_value(grad: Tensor, limit: float) -> Tensor:
    # Clipping would turn an infinity into a number and hide the overflow.
    clipped = tf.clip_by_value(grad, -limit, limit)
    return tf.where(tf.math.is_finite(grad), clipped, grad)
