"""Pooling: the maximum or the mean of windows, or of all positions."""

from typing import ClassVar

from ampspec.layers.base import AxisFields, Layer
from ampspec.layers.fields import AxisField, Padding
from ampspec.layers.inference import Inference, Shape, window_positions


class _Pooling(Layer):
    axis_fields: ClassVar[AxisFields] = {
        "pool_size": AxisField(),
        "strides": AxisField(nullable=True),
    }
    pool_size: tuple[int, ...]
    strides: tuple[int, ...] | None
    """By default the size of the windows."""
    padding: Padding = "valid"

    def infer(self, *shapes: Shape) -> Inference:
        """[…, channels] to [windows…, channels]."""
        [shape] = shapes
        windows = window_positions(
            self.spatial_shape(shape),
            self.pool_size,
            self.strides or self.pool_size,
            self.padding,
            field="pool_size",
        )
        return Inference((*windows, shape[-1]))


class _MaxPooling(_Pooling):
    axis_fields: ClassVar[AxisFields] = {**_Pooling.axis_fields, "pool_size": AxisField(2)}


class MaxPooling1D(_MaxPooling, rank=1):
    """The maximum of windows of [steps, channels]."""


class MaxPooling2D(_MaxPooling, rank=2):
    """The maximum of windows of [height, width, channels]."""


class MaxPooling3D(_MaxPooling, rank=3):
    """The maximum of windows of [depth, height, width, channels]."""


class AveragePooling1D(_Pooling, rank=1):
    """The mean of windows of [steps, channels]."""


class AveragePooling2D(_Pooling, rank=2):
    """The mean of windows of [height, width, channels]."""


class AveragePooling3D(_Pooling, rank=3):
    """The mean of windows of [depth, height, width, channels]."""


class _GlobalPooling(Layer):
    keepdims: bool = False
    """Whether the pooled axes stay, with size 1."""

    def infer(self, *shapes: Shape) -> Inference:
        """[…, channels] to [channels]."""
        [shape] = shapes
        pooled_axes = (1,) * len(self.spatial_shape(shape)) if self.keepdims else ()
        return Inference((*pooled_axes, shape[-1]))


class GlobalMaxPooling1D(_GlobalPooling, rank=1):
    """The maximum of each channel of [steps, channels]."""


class GlobalMaxPooling2D(_GlobalPooling, rank=2):
    """The maximum of each channel of [height, width, channels]."""


class GlobalMaxPooling3D(_GlobalPooling, rank=3):
    """The maximum of each channel of [depth, height, width, channels]."""


class GlobalAveragePooling1D(_GlobalPooling, rank=1):
    """The mean of each channel of [steps, channels]."""


class GlobalAveragePooling2D(_GlobalPooling, rank=2):
    """The mean of each channel of [height, width, channels]."""


class GlobalAveragePooling3D(_GlobalPooling, rank=3):
    """The mean of each channel of [depth, height, width, channels]."""
