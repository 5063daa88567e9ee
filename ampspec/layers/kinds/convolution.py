"""Convolutions over [steps, channels], [height, width, channels] and [x, y, z, channels]."""

import math
from functools import partial
from typing import ClassVar, Final, Literal

from ampspec.layers.base import AxisFields, KernelLayer, Layer
from ampspec.layers.fields import Activation, AxisField, Count, Filters, Padding, PerAxis
from ampspec.layers.inference import (
    Inference,
    Shape,
    ShapeError,
    require_strides_or_dilation,
    window_positions,
)
from ampspec.layers.weight_options import (
    GLOROT_UNIFORM,
    ZEROS,
    ConstraintField,
    InitializerField,
    RegularizerField,
)

KERNEL_FIELDS: Final = {
    "kernel_size": AxisField(),
    "strides": AxisField(1),
    "dilation_rate": AxisField(1),
}


class _Windowed(Layer):
    """The checks of all layers that move a kernel over an input."""

    axis_fields: ClassVar[AxisFields] = KERNEL_FIELDS
    kernel_size: tuple[int, ...]
    strides: tuple[int, ...]
    dilation_rate: tuple[int, ...]

    def _spatial(self, shape: Shape) -> tuple[Shape, int]:
        """The sizes of the axes that the kernel moves along, and the channels."""
        size = self.spatial_shape(shape)
        require_strides_or_dilation(self.strides, self.dilation_rate)
        return size, shape[-1]

    def _positions(self, size: Shape, padding: str) -> Shape:
        return window_positions(size, self.kernel_size, self.strides, padding, self.dilation_rate)


class _Convolution(KernelLayer, _Windowed):
    """A convolution with a kernel for all channels of a group."""

    filters: Filters
    """The channels of the output; `classes`: the number of classes of the data."""
    padding: Padding = "valid"
    groups: Count = 1
    activation: Activation | None = None

    def infer(self, *shapes: Shape) -> Inference:
        """[…, channels] to [positions…, filters]."""
        size, channels = self._spatial(shapes[0])
        filters = int(self.filters)
        if channels % self.groups or filters % self.groups:
            raise ShapeError(
                "groups",
                expected=f"a divisor of the {channels} channels and of the {filters} filters",
                received=str(self.groups),
            )
        positions = self._positions(size, self.padding)
        kernel = (*self.kernel_size, channels // self.groups, filters)
        return Inference(
            (*positions, filters),
            weights=(kernel, (filters,)) if self.use_bias else (kernel,),
            multiply_adds=math.prod(positions) * math.prod(kernel),
            dimensions={"filters": filters},
        )


class Conv1D(_Convolution, rank=1):
    """A convolution over [steps, channels]."""

    padding: Literal["valid", "same", "causal"] = "valid"  # type: ignore[assignment]


class Conv2D(_Convolution, rank=2):
    """A convolution over [height, width, channels]."""


class Conv3D(_Convolution, rank=3):
    """A convolution over [depth, height, width, channels]."""


class _Transposed(KernelLayer, _Windowed):
    """The gradient of a convolution by its input: it enlarges the input."""

    axis_fields: ClassVar[AxisFields] = KERNEL_FIELDS | {
        "output_padding": AxisField(parser=partial(PerAxis, low=0), nullable=True)
    }
    filters: Filters
    """The channels of the output; `classes`: the number of classes of the data."""
    padding: Padding = "valid"
    output_padding: tuple[int, ...] | None
    activation: Activation | None = None

    def infer(self, *shapes: Shape) -> Inference:
        """[…, channels] to [larger…, filters]."""
        size, channels = self._spatial(shapes[0])
        filters = int(self.filters)
        added = self.output_padding or (None,) * self.rank
        for more, step in zip(added, self.strides, strict=True):
            if more is not None and more >= step:
                raise ShapeError(
                    "output_padding",
                    expected=f"less than the strides {list(self.strides)}",
                    received=str(list(self.output_padding or ())),
                )
        output = tuple(
            self._length(*sizes)
            for sizes in zip(
                size, self.kernel_size, self.strides, self.dilation_rate, added, strict=True
            )
        )
        kernel = (*self.kernel_size, filters, channels)
        return Inference(
            (*output, filters),
            weights=(kernel, (filters,)) if self.use_bias else (kernel,),
            multiply_adds=math.prod(size) * math.prod(kernel),
            dimensions={"filters": filters},
        )

    def _length(self, length: int, width: int, step: int, rate: int, added: int | None) -> int:
        span = rate * (width - 1) + 1
        if self.padding == "valid":
            added = max(span, step) - span if added is None else added
            return (length - 1) * step + span + added
        return length * step if added is None else (length - 1) * step + span % 2 + added


class Conv1DTranspose(_Transposed, rank=1):
    """A transposed convolution over [steps, channels]."""


class Conv2DTranspose(_Transposed, rank=2):
    """A transposed convolution over [height, width, channels]."""


class Conv3DTranspose(_Transposed, rank=3):
    """A transposed convolution over [depth, height, width, channels]."""


class _Depthwise(_Windowed):
    """A convolution with separate kernels for each channel."""

    padding: Padding = "valid"
    depth_multiplier: Count = 1
    """The output channels of each input channel."""
    activation: Activation | None = None
    use_bias: bool = True
    depthwise_initializer: InitializerField = GLOROT_UNIFORM
    bias_initializer: InitializerField = ZEROS
    depthwise_regularizer: RegularizerField = None
    bias_regularizer: RegularizerField = None
    depthwise_constraint: ConstraintField = None
    bias_constraint: ConstraintField = None

    def _depthwise(self, shape: Shape) -> tuple[Shape, Shape]:
        """The positions, and the shape of the kernel."""
        size, channels = self._spatial(shape)
        if len(set(self.strides)) > 1:
            raise ShapeError(
                "strides", expected="the same stride on each axis", received=str(list(self.strides))
            )
        positions = self._positions(size, self.padding)
        return positions, (*self.kernel_size, channels, self.depth_multiplier)


class _DepthwiseConvolution(_Depthwise):
    def infer(self, *shapes: Shape) -> Inference:
        """[…, channels] to [positions…, channels · depth_multiplier]."""
        positions, kernel = self._depthwise(shapes[0])
        output_channels = kernel[-2] * kernel[-1]
        return Inference(
            (*positions, output_channels),
            weights=(kernel, (output_channels,)) if self.use_bias else (kernel,),
            multiply_adds=math.prod(positions) * math.prod(kernel),
        )


class DepthwiseConv1D(_DepthwiseConvolution, rank=1):
    """A convolution of each channel of [steps, channels]."""


class DepthwiseConv2D(_DepthwiseConvolution, rank=2):
    """A convolution of each channel of [height, width, channels]."""


class _Separable(_Depthwise):
    """A depthwise convolution, then a dense layer over the channels."""

    filters: Filters
    """The channels of the output; `classes`: the number of classes of the data."""
    pointwise_initializer: InitializerField = GLOROT_UNIFORM
    pointwise_regularizer: RegularizerField = None
    pointwise_constraint: ConstraintField = None

    def infer(self, *shapes: Shape) -> Inference:
        """[…, channels] to [positions…, filters]."""
        positions, depthwise = self._depthwise(shapes[0])
        filters = int(self.filters)
        pointwise = (*(1,) * self.rank, depthwise[-2] * depthwise[-1], filters)
        kernels = (depthwise, pointwise)
        return Inference(
            (*positions, filters),
            weights=(*kernels, (filters,)) if self.use_bias else kernels,
            multiply_adds=math.prod(positions) * sum(map(math.prod, kernels)),
            dimensions={"filters": filters},
        )


class SeparableConv1D(_Separable, rank=1):
    """A separable convolution over [steps, channels]."""

    padding: Literal["valid", "same", "causal"] = "valid"  # type: ignore[assignment]


class SeparableConv2D(_Separable, rank=2):
    """A separable convolution over [height, width, channels]."""
