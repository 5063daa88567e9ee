"""Normalization by statistics of the batch, of the example, or of groups of channels."""

from typing import Annotated

from pydantic import Field

from ampspec.layers.base import Layer
from ampspec.layers.fields import Axes, Axis, Epsilon
from ampspec.layers.inference import Inference, Shape, ShapeError, axis_index, axis_indices
from ampspec.layers.weight_options import (
    ONES,
    ZEROS,
    ConstraintField,
    InitializerField,
    RegularizerField,
)


class _ScaleAndShift(Layer):
    """The learned factor (gamma) and offset (beta) after normalization."""

    epsilon: Epsilon = 1e-3
    center: bool = True
    """Whether an offset is learned."""
    scale: bool = True
    """Whether a factor is learned."""
    beta_initializer: InitializerField = ZEROS
    gamma_initializer: InitializerField = ONES
    beta_regularizer: RegularizerField = None
    gamma_regularizer: RegularizerField = None
    beta_constraint: ConstraintField = None
    gamma_constraint: ConstraintField = None

    def _weights(self, shape: Shape) -> tuple[Shape, ...]:
        return (shape,) * (self.scale + self.center)


class BatchNormalization(_ScaleAndShift):
    """Normalizes each channel by the batch in training, by moving statistics afterwards.

    Source: Ioffe and Szegedy 2015, arXiv:1502.03167.
    """

    axis: Axis = -1
    momentum: Annotated[float, Field(ge=0, le=1)] = 0.99
    moving_mean_initializer: InitializerField = ZEROS
    moving_variance_initializer: InitializerField = ONES

    def infer(self, *shapes: Shape) -> Inference:
        """The same shape; a mean and a variance for each channel are not trained."""
        [shape] = shapes
        channels = (shape[axis_index(self.axis, shape)],)
        return Inference(shape, weights=self._weights(channels), state=(channels, channels))


class LayerNormalization(_ScaleAndShift):
    """Normalizes each example over one axis or several. Source: Ba et al. 2016."""

    axis: Axes = -1

    def infer(self, *shapes: Shape) -> Inference:
        """The same shape."""
        [shape] = shapes
        sizes = tuple(shape[index] for index in axis_indices(self.axis, shape))
        return Inference(shape, weights=self._weights(sizes))


class GroupNormalization(_ScaleAndShift):
    """Normalizes groups of channels of each example. Source: Wu and He 2018, arXiv:1803.08494."""

    groups: Annotated[int, Field(ge=-1, le=65_536)] = 32
    """-1: one group for each channel."""
    axis: Axis = -1

    def infer(self, *shapes: Shape) -> Inference:
        """The same shape; the groups divide the channels."""
        [shape] = shapes
        channels = shape[axis_index(self.axis, shape)]
        groups = channels if self.groups == -1 else self.groups
        if groups < 1 or channels % groups:
            raise ShapeError(
                "groups",
                expected=f"a divisor of the {channels} channels, or -1",
                received=str(self.groups),
            )
        return Inference(shape, weights=self._weights((channels,)))


class RMSNormalization(Layer):
    """Divides by the root mean square. Source: Zhang and Sennrich 2019, arXiv:1910.07467."""

    axis: Axes = -1
    epsilon: Epsilon = 1e-6

    def infer(self, *shapes: Shape) -> Inference:
        """The same shape; the factor is learned."""
        [shape] = shapes
        sizes = tuple(shape[index] for index in axis_indices(self.axis, shape))
        return Inference(shape, weights=(sizes,))


class UnitNormalization(Layer):
    """Divides by the L2 norm over one axis or several."""

    axis: Axes = -1

    def infer(self, *shapes: Shape) -> Inference:
        """The same shape."""
        axis_indices(self.axis, shapes[0])
        return Inference(shapes[0])
