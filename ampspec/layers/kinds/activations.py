"""Activations as layers."""

from typing import Annotated

from pydantic import Field

from ampspec.layers.base import Elementwise, Layer
from ampspec.layers.fields import Activation as ActivationName
from ampspec.layers.fields import Axes, Number
from ampspec.layers.inference import Inference, Shape, axis_indices
from ampspec.layers.weight_options import ZEROS, ConstraintField, InitializerField, RegularizerField

Slope = Annotated[float, Field(ge=0, le=1e6)]


class Activation(Elementwise):
    """A function of Keras by its name."""

    activation: ActivationName


class ReLU(Elementwise):
    """max(x, 0), with an optional slope below `threshold` and an optional maximum."""

    max_value: Slope | None = None
    negative_slope: Slope = 0.0
    threshold: Slope = 0.0


class LeakyReLU(Elementwise):
    """x, or `negative_slope` · x where x < 0."""

    negative_slope: Slope = 0.3


class ELU(Elementwise):
    """x, or `alpha` · (exp(x) - 1) where x < 0."""

    alpha: Number = 1.0


class PReLU(Layer):
    """x, or a learned slope · x where x < 0."""

    alpha_initializer: InitializerField = ZEROS
    alpha_regularizer: RegularizerField = None
    alpha_constraint: ConstraintField = None
    shared_axes: Axes | None = None
    """The axes that share a slope, such as [1, 2] for images."""

    def infer(self, *shapes: Shape) -> Inference:
        """One slope for each value of an example; shared axes have one slope."""
        [shape] = shapes
        shared = () if self.shared_axes is None else self.shared_axes
        indices = axis_indices(shared, shape, "shared_axes")
        slopes = tuple(1 if index in indices else size for index, size in enumerate(shape))
        return Inference(shape, weights=(slopes,))


class Softmax(Layer):
    """Probabilities along one axis or several; computed in float32 under every policy."""

    axis: Axes = -1

    def infer(self, *shapes: Shape) -> Inference:
        """The same shape."""
        axis_indices(self.axis, shapes[0])
        return Inference(shapes[0])
