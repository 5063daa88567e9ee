"""Layers that arrange, repeat, remove or add positions."""

import math
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from ampspec.layers.base import Layer
from ampspec.layers.fields import BeforeAfter, Sizes, Window1D, Window2D, Window3D
from ampspec.layers.inference import Inference, Shape, ShapeError, require_rank
from ampspec.layers.kinds.convolution import AXES

Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos3", "lanczos5"]
Edges = tuple[tuple[int, int], ...]
Edges1D = Annotated[Edges, BeforeAfter(1)]
Edges2D = Annotated[Edges, BeforeAfter(2)]
Edges3D = Annotated[Edges, BeforeAfter(3)]
ONE: Final = (1, 1)


class Reshape(Layer):
    """The same values in another shape."""

    layer: Literal["Reshape"] = "Reshape"
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

    layer: Literal["Flatten"] = "Flatten"

    def infer(self, *shapes: Shape) -> Inference:
        """[…] to [numbers]."""
        return Inference((math.prod(shapes[0]),))


class Permute(Layer):
    """The axes in another order."""

    layer: Literal["Permute"] = "Permute"
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

    layer: Literal["RepeatVector"] = "RepeatVector"
    n: Annotated[int, Field(ge=1, le=65_536)]

    def infer(self, *shapes: Shape) -> Inference:
        """[features] to [n, features]."""
        require_rank(shapes[0], "features")
        return Inference((self.n, *shapes[0]))


class _Edges(Layer):
    axes: ClassVar[int]

    def _resized(self, shape: Shape, edges: Edges, sign: int, field: str) -> Inference:
        require_rank(shape, AXES[self.axes])
        sizes = tuple(
            length + sign * (left_edge + right_edge)
            for length, (left_edge, right_edge) in zip(shape[:-1], edges, strict=True)
        )
        if min(sizes) < 1:
            raise ShapeError(
                field,
                expected=f"less than the size of the input {list(shape)}",
                received=str([list(pair) for pair in edges]),
            )
        return Inference((*sizes, shape[-1]))


class _Cropping(_Edges):
    cropping: Edges1D

    def infer(self, *shapes: Shape) -> Inference:
        """[…, channels] to [smaller…, channels]."""
        return self._resized(shapes[0], self.cropping, -1, "cropping")


class Cropping1D(_Cropping):
    """Removes steps at the beginning and at the end."""

    axes: ClassVar[int] = 1
    layer: Literal["Cropping1D"] = "Cropping1D"
    cropping: Edges1D = (ONE,)

    @property
    def keras_arguments(self) -> dict[str, Any]:
        """Keras takes the pair itself."""
        return super().keras_arguments | {"cropping": self.cropping[0]}


class Cropping2D(_Cropping):
    """Removes rows and columns at the edges."""

    axes: ClassVar[int] = 2
    layer: Literal["Cropping2D"] = "Cropping2D"
    cropping: Edges2D = ((0, 0), (0, 0))


class Cropping3D(_Cropping):
    """Removes positions at the edges of each axis."""

    axes: ClassVar[int] = 3
    layer: Literal["Cropping3D"] = "Cropping3D"
    cropping: Edges3D = (ONE, ONE, ONE)


class _ZeroPadding(_Edges):
    padding: Edges1D

    def infer(self, *shapes: Shape) -> Inference:
        """[…, channels] to [larger…, channels]."""
        return self._resized(shapes[0], self.padding, 1, "padding")


class ZeroPadding1D(_ZeroPadding):
    """Adds steps of 0 at the beginning and at the end."""

    axes: ClassVar[int] = 1
    layer: Literal["ZeroPadding1D"] = "ZeroPadding1D"
    padding: Edges1D = (ONE,)

    @property
    def keras_arguments(self) -> dict[str, Any]:
        """Keras takes the pair itself."""
        return super().keras_arguments | {"padding": self.padding[0]}


class ZeroPadding2D(_ZeroPadding):
    """Adds rows and columns of 0 at the edges."""

    axes: ClassVar[int] = 2
    layer: Literal["ZeroPadding2D"] = "ZeroPadding2D"
    padding: Edges2D = (ONE, ONE)


class ZeroPadding3D(_ZeroPadding):
    """Adds positions of 0 at the edges of each axis."""

    axes: ClassVar[int] = 3
    layer: Literal["ZeroPadding3D"] = "ZeroPadding3D"
    padding: Edges3D = (ONE, ONE, ONE)


class _UpSampling(Layer):
    axes: ClassVar[int]
    size: Window1D

    def infer(self, *shapes: Shape) -> Inference:
        """[…, channels] to [multiples…, channels]."""
        [shape] = shapes
        require_rank(shape, AXES[self.axes])
        sizes = (length * factor for length, factor in zip(shape[:-1], self.size, strict=True))
        return Inference((*sizes, shape[-1]))


class UpSampling1D(_UpSampling):
    """Repeats each step."""

    axes: ClassVar[int] = 1
    layer: Literal["UpSampling1D"] = "UpSampling1D"
    size: Window1D = (2,)

    @property
    def keras_arguments(self) -> dict[str, Any]:
        """Keras takes a number."""
        return super().keras_arguments | {"size": self.size[0]}


class UpSampling2D(_UpSampling):
    """Enlarges an image by whole factors."""

    axes: ClassVar[int] = 2
    layer: Literal["UpSampling2D"] = "UpSampling2D"
    size: Window2D = (2, 2)
    interpolation: Interpolation = "nearest"


class UpSampling3D(_UpSampling):
    """Repeats each position along three axes."""

    axes: ClassVar[int] = 3
    layer: Literal["UpSampling3D"] = "UpSampling3D"
    size: Window3D = (2, 2, 2)
