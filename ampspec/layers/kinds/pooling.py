"""Pooling: the maximum or the mean of windows, or of all positions."""

from typing import ClassVar, Literal

from ampspec.layers.base import Layer
from ampspec.layers.fields import Padding, Window1D, Window2D, Window3D
from ampspec.layers.inference import Inference, Shape, require_rank, window_positions
from ampspec.layers.kinds.convolution import AXES


class _Pooling(Layer):
    axes: ClassVar[int]
    pool_size: Window1D
    strides: Window1D | None
    padding: Padding = "valid"

    def infer(self, *shapes: Shape) -> Inference:
        """[…, channels] to [windows…, channels]."""
        [shape] = shapes
        require_rank(shape, AXES[self.axes])
        strides = self.strides or self.pool_size
        windows = window_positions(
            shape[:-1], self.pool_size, strides, self.padding, field="pool_size"
        )
        return Inference((*windows, shape[-1]))


class _Pooling1D(_Pooling):
    axes: ClassVar[int] = 1
    strides: Window1D | None = None
    """By default the size of the windows."""


class _Pooling2D(_Pooling):
    axes: ClassVar[int] = 2
    strides: Window2D | None = None
    """By default the size of the windows."""


class _Pooling3D(_Pooling):
    axes: ClassVar[int] = 3
    strides: Window3D | None = None
    """By default the size of the windows."""


class MaxPooling1D(_Pooling1D):
    """The maximum of windows of [steps, channels]."""

    layer: Literal["MaxPooling1D"] = "MaxPooling1D"
    pool_size: Window1D = (2,)


class MaxPooling2D(_Pooling2D):
    """The maximum of windows of [height, width, channels]."""

    layer: Literal["MaxPooling2D"] = "MaxPooling2D"
    pool_size: Window2D = (2, 2)


class MaxPooling3D(_Pooling3D):
    """The maximum of windows of [depth, height, width, channels]."""

    layer: Literal["MaxPooling3D"] = "MaxPooling3D"
    pool_size: Window3D = (2, 2, 2)


class AveragePooling1D(_Pooling1D):
    """The mean of windows of [steps, channels]."""

    layer: Literal["AveragePooling1D"] = "AveragePooling1D"
    pool_size: Window1D


class AveragePooling2D(_Pooling2D):
    """The mean of windows of [height, width, channels]."""

    layer: Literal["AveragePooling2D"] = "AveragePooling2D"
    pool_size: Window2D


class AveragePooling3D(_Pooling3D):
    """The mean of windows of [depth, height, width, channels]."""

    layer: Literal["AveragePooling3D"] = "AveragePooling3D"
    pool_size: Window3D


class _GlobalPooling(Layer):
    axes: ClassVar[int]
    keepdims: bool = False
    """Whether the pooled axes stay, with size 1."""

    def infer(self, *shapes: Shape) -> Inference:
        """[…, channels] to [channels]."""
        [shape] = shapes
        require_rank(shape, AXES[self.axes])
        kept = (1,) * self.axes if self.keepdims else ()
        return Inference((*kept, shape[-1]))


class GlobalMaxPooling1D(_GlobalPooling):
    """The maximum of each channel of [steps, channels]."""

    axes: ClassVar[int] = 1
    layer: Literal["GlobalMaxPooling1D"] = "GlobalMaxPooling1D"


class GlobalMaxPooling2D(_GlobalPooling):
    """The maximum of each channel of [height, width, channels]."""

    axes: ClassVar[int] = 2
    layer: Literal["GlobalMaxPooling2D"] = "GlobalMaxPooling2D"


class GlobalMaxPooling3D(_GlobalPooling):
    """The maximum of each channel of [depth, height, width, channels]."""

    axes: ClassVar[int] = 3
    layer: Literal["GlobalMaxPooling3D"] = "GlobalMaxPooling3D"


class GlobalAveragePooling1D(_GlobalPooling):
    """The mean of each channel of [steps, channels]."""

    axes: ClassVar[int] = 1
    layer: Literal["GlobalAveragePooling1D"] = "GlobalAveragePooling1D"


class GlobalAveragePooling2D(_GlobalPooling):
    """The mean of each channel of [height, width, channels]."""

    axes: ClassVar[int] = 2
    layer: Literal["GlobalAveragePooling2D"] = "GlobalAveragePooling2D"


class GlobalAveragePooling3D(_GlobalPooling):
    """The mean of each channel of [depth, height, width, channels]."""

    axes: ClassVar[int] = 3
    layer: Literal["GlobalAveragePooling3D"] = "GlobalAveragePooling3D"
