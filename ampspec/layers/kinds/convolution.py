"""Convolutions over [steps, channels], [height, width, channels] and [x, y, z, channels]."""

import math
from typing import Annotated, ClassVar, Literal

from ampspec.layers.base import KernelLayer, Layer
from ampspec.layers.fields import (
    Activation,
    Count,
    Filters,
    Padding,
    PerAxis,
    Window1D,
    Window2D,
    Window3D,
)
from ampspec.layers.inference import (
    Inference,
    Shape,
    ShapeError,
    require_rank,
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

AXES = {
    1: "steps, channels",
    2: "height, width, channels",
    3: "depth, height, width, channels",
}
ONES_1D, ONES_2D, ONES_3D = (1,), (1, 1), (1, 1, 1)


class _Windowed(Layer):
    """The checks of all layers that move a kernel over an input."""

    axes: ClassVar[int]
    kernel_size: Window1D
    strides: Window1D
    dilation_rate: Window1D

    def _spatial(self, shape: Shape) -> tuple[Shape, int]:
        """The sizes of the axes that the kernel moves along, and the channels."""
        require_rank(shape, AXES[self.axes])
        require_strides_or_dilation(self.strides, self.dilation_rate)
        return shape[:-1], shape[-1]

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


class Conv1D(_Convolution):
    """A convolution over [steps, channels]."""

    axes: ClassVar[int] = 1
    layer: Literal["Conv1D"] = "Conv1D"
    kernel_size: Window1D
    strides: Window1D = ONES_1D
    padding: Literal["valid", "same", "causal"] = "valid"  # type: ignore[assignment]
    dilation_rate: Window1D = ONES_1D


class Conv2D(_Convolution):
    """A convolution over [height, width, channels]."""

    axes: ClassVar[int] = 2
    layer: Literal["Conv2D"] = "Conv2D"
    kernel_size: Window2D
    strides: Window2D = ONES_2D
    dilation_rate: Window2D = ONES_2D


class Conv3D(_Convolution):
    """A convolution over [depth, height, width, channels]."""

    axes: ClassVar[int] = 3
    layer: Literal["Conv3D"] = "Conv3D"
    kernel_size: Window3D
    strides: Window3D = ONES_3D
    dilation_rate: Window3D = ONES_3D


class _Transposed(KernelLayer, _Windowed):
    """The gradient of a convolution by its input: it enlarges the input."""

    filters: Filters
    """The channels of the output; `classes`: the number of classes of the data."""
    padding: Padding = "valid"
    output_padding: Window1D | None = None
    activation: Activation | None = None

    def infer(self, *shapes: Shape) -> Inference:
        """[…, channels] to [larger…, filters]."""
        size, channels = self._spatial(shapes[0])
        filters = int(self.filters)
        added = self.output_padding or (None,) * self.axes
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


class Conv1DTranspose(_Transposed):
    """A transposed convolution over [steps, channels]."""

    axes: ClassVar[int] = 1
    layer: Literal["Conv1DTranspose"] = "Conv1DTranspose"
    kernel_size: Window1D
    strides: Window1D = ONES_1D
    output_padding: Annotated[tuple[int, ...], PerAxis(1, 0)] | None = None
    dilation_rate: Window1D = ONES_1D


class Conv2DTranspose(_Transposed):
    """A transposed convolution over [height, width, channels]."""

    axes: ClassVar[int] = 2
    layer: Literal["Conv2DTranspose"] = "Conv2DTranspose"
    kernel_size: Window2D
    strides: Window2D = ONES_2D
    output_padding: Annotated[tuple[int, ...], PerAxis(2, 0)] | None = None
    dilation_rate: Window2D = ONES_2D


class Conv3DTranspose(_Transposed):
    """A transposed convolution over [depth, height, width, channels]."""

    axes: ClassVar[int] = 3
    layer: Literal["Conv3DTranspose"] = "Conv3DTranspose"
    kernel_size: Window3D
    strides: Window3D = ONES_3D
    output_padding: Annotated[tuple[int, ...], PerAxis(3, 0)] | None = None
    dilation_rate: Window3D = ONES_3D


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


class DepthwiseConv1D(_DepthwiseConvolution):
    """A convolution of each channel of [steps, channels]."""

    axes: ClassVar[int] = 1
    layer: Literal["DepthwiseConv1D"] = "DepthwiseConv1D"
    kernel_size: Window1D
    strides: Window1D = ONES_1D
    dilation_rate: Window1D = ONES_1D


class DepthwiseConv2D(_DepthwiseConvolution):
    """A convolution of each channel of [height, width, channels]."""

    axes: ClassVar[int] = 2
    layer: Literal["DepthwiseConv2D"] = "DepthwiseConv2D"
    kernel_size: Window2D
    strides: Window2D = ONES_2D
    dilation_rate: Window2D = ONES_2D


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
        pointwise = (*(1,) * self.axes, depthwise[-2] * depthwise[-1], filters)
        kernels = (depthwise, pointwise)
        return Inference(
            (*positions, filters),
            weights=(*kernels, (filters,)) if self.use_bias else kernels,
            multiply_adds=math.prod(positions) * sum(map(math.prod, kernels)),
            dimensions={"filters": filters},
        )


class SeparableConv1D(_Separable):
    """A separable convolution over [steps, channels]."""

    axes: ClassVar[int] = 1
    layer: Literal["SeparableConv1D"] = "SeparableConv1D"
    kernel_size: Window1D
    strides: Window1D = ONES_1D
    padding: Literal["valid", "same", "causal"] = "valid"  # type: ignore[assignment]
    dilation_rate: Window1D = ONES_1D


class SeparableConv2D(_Separable):
    """A separable convolution over [height, width, channels]."""

    axes: ClassVar[int] = 2
    layer: Literal["SeparableConv2D"] = "SeparableConv2D"
    kernel_size: Window2D
    strides: Window2D = ONES_2D
    dilation_rate: Window2D = ONES_2D
