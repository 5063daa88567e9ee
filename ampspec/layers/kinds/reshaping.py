"""Layers that arrange, repeat, remove or add positions."""

import math
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ampspec.layers.base import AxisFields, Layer
from ampspec.layers.fields import AxisField, BeforeAfter, Sizes
from ampspec.layers.inference import Inference, Shape, ShapeError, require_rank

Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos3", "lanczos5"]
Edges = tuple[tuple[int, int], ...]


class Reshape(Layer):
    """The same values in another shape."""

    target_shape: Annotated[tuple[int, ...], Sizes(-1)]
    """Without the batch; -1 follows from the other sizes."""

    def infer(self, *shapes: Shape) -> Inference:
        """The target shape holds as many numbers as the input."""
        size = math.prod(shapes[0])
        fixed = math.prod(length for length in self.target_shape if length > 0)
        free = self.target_shape.count(-1)
        if free > 1 or size % fixed or (not free and size != fixed):
            raise ShapeError(
                "target_shape",
                expected=f"a shape of {size} numbers, with at most one -1",
                received=str(list(self.target_shape)),
            )
        return Inference(
            tuple(size // fixed if length == -1 else length for length in self.target_shape)
        )


class Flatten(Layer):
    """All numbers of an example in one axis."""

    def infer(self, *shapes: Shape) -> Inference:
        """[…] to [numbers]."""
        return Inference((math.prod(shapes[0]),))


class Permute(Layer):
    """The axes in another order."""

    dims: Annotated[tuple[int, ...], Sizes(high=8)]
    """The axes, counted from 1: [2, 1] swaps two axes."""

    def infer(self, *shapes: Shape) -> Inference:
        """Each axis once."""
        [shape] = shapes
        if sorted(self.dims) != list(range(1, len(shape) + 1)):
            raise ShapeError(
                "dims",
                expected=f"each of the axes 1 to {len(shape)} once",
                received=str(list(self.dims)),
            )
        return Inference(tuple(shape[axis - 1] for axis in self.dims))


class RepeatVector(Layer):
    """The input `n` times: [features] to [n, features]."""

    n: Annotated[int, Field(ge=1, le=65_536)]

    def infer(self, *shapes: Shape) -> Inference:
        """[features] to [n, features]."""
        require_rank(shapes[0], "features")
        return Inference((self.n, *shapes[0]))


class _Spatial(Layer):
    argument: ClassVar[str]
    """The field with an entry for each spatial axis."""

    @property
    def keras_arguments(self) -> dict[str, Any]:
        """For one axis, Keras takes the entry itself."""
        arguments = super().keras_arguments
        if self.rank == 1:
            [arguments[self.argument]] = arguments[self.argument]
        return arguments

    def _resized(self, shape: Shape, edges: Edges, sign: int) -> Inference:
        sizes = tuple(
            length + sign * (left_edge + right_edge)
            for length, (left_edge, right_edge) in zip(
                self.spatial_shape(shape), edges, strict=True
            )
        )
        if min(sizes) < 1:
            raise ShapeError(
                self.argument,
                expected=f"less than the size of the input {list(shape)}",
                received=str([list(pair) for pair in edges]),
            )
        return Inference((*sizes, shape[-1]))


class _Cropping(_Spatial):
    argument: ClassVar[str] = "cropping"
    axis_fields: ClassVar[AxisFields] = {"cropping": AxisField((1, 1), BeforeAfter)}
    cropping: Edges

    def infer(self, *shapes: Shape) -> Inference:
        """[…, channels] to [smaller…, channels]."""
        return self._resized(shapes[0], self.cropping, -1)


class Cropping1D(_Cropping, rank=1):
    """Removes steps at the beginning and at the end."""


class Cropping2D(_Cropping, rank=2):
    """Removes rows and columns at the edges."""

    axis_fields: ClassVar[AxisFields] = {"cropping": AxisField((0, 0), BeforeAfter)}


class Cropping3D(_Cropping, rank=3):
    """Removes positions at the edges of each axis."""


class _ZeroPadding(_Spatial):
    argument: ClassVar[str] = "padding"
    axis_fields: ClassVar[AxisFields] = {"padding": AxisField((1, 1), BeforeAfter)}
    padding: Edges

    def infer(self, *shapes: Shape) -> Inference:
        """[…, channels] to [larger…, channels]."""
        return self._resized(shapes[0], self.padding, 1)


class ZeroPadding1D(_ZeroPadding, rank=1):
    """Adds steps of 0 at the beginning and at the end."""


class ZeroPadding2D(_ZeroPadding, rank=2):
    """Adds rows and columns of 0 at the edges."""


class ZeroPadding3D(_ZeroPadding, rank=3):
    """Adds positions of 0 at the edges of each axis."""


class _UpSampling(_Spatial):
    argument: ClassVar[str] = "size"
    axis_fields: ClassVar[AxisFields] = {"size": AxisField(2)}
    size: tuple[int, ...]

    def infer(self, *shapes: Shape) -> Inference:
        """[…, channels] to [multiples…, channels]."""
        [shape] = shapes
        lengths = zip(self.spatial_shape(shape), self.size, strict=True)
        return Inference((*(length * factor for length, factor in lengths), shape[-1]))


class UpSampling1D(_UpSampling, rank=1):
    """Repeats each step."""


class UpSampling2D(_UpSampling, rank=2):
    """Enlarges an image by whole factors."""

    interpolation: Interpolation = "nearest"


class UpSampling3D(_UpSampling, rank=3):
    """Repeats each position along three axes."""
