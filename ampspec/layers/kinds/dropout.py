"""Layers that add noise in training; the job's seed decides their random numbers."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ampspec.layers.base import Elementwise
from ampspec.layers.fields import MAX_AXIS, MAX_WIDTH, Rate
from ampspec.layers.inference import Inference, Shape, ShapeError, require_rank
from ampspec.layers.kinds.convolution import AXES

NoiseShape = Annotated[
    tuple[Annotated[int, Field(ge=1, le=MAX_WIDTH)] | None, ...],
    Field(strict=False, min_length=1, max_length=MAX_AXIS),
]


class _Dropout(Elementwise):
    rate: Rate
    noise_shape: NoiseShape | None = None
    """The batch and the axes of the noise: 1 where values are dropped together, null where they are
    dropped independently, such as [null, 1, 1, 1] to drop whole examples of images."""

    def infer(self, *shapes: Shape) -> Inference:
        """The same shape."""
        [shape] = shapes
        noise = self.noise_shape
        if noise is not None and (
            len(noise) != len(shape) + 1
            or any(axis not in (1, None, size) for axis, size in zip(noise[1:], shape, strict=True))
        ):
            raise ShapeError(
                "noise_shape",
                expected=f"null or 1 for the batch and for each axis of {list(shape)}",
                received=str(list(noise)).replace("None", "null"),
            )
        return Inference(shape)


class Dropout(_Dropout):
    """Sets a share of the numbers to 0."""

    layer: Literal["Dropout"] = "Dropout"


class AlphaDropout(_Dropout):
    """Dropout that keeps mean and variance, for selu. Source: Klambauer et al. 2017."""

    layer: Literal["AlphaDropout"] = "AlphaDropout"


class GaussianDropout(Elementwise):
    """Multiplies by random numbers around 1."""

    layer: Literal["GaussianDropout"] = "GaussianDropout"
    rate: Rate


class GaussianNoise(Elementwise):
    """Adds random numbers around 0."""

    layer: Literal["GaussianNoise"] = "GaussianNoise"
    stddev: Annotated[float, Field(ge=0, le=1e6)]


class _SpatialDropout(Elementwise):
    axes: ClassVar[int]
    rate: Rate

    def infer(self, *shapes: Shape) -> Inference:
        """The same shape."""
        require_rank(shapes[0], AXES[self.axes])
        return Inference(shapes[0])


class SpatialDropout1D(_SpatialDropout):
    """Sets whole channels of [steps, channels] to 0."""

    axes: ClassVar[int] = 1
    layer: Literal["SpatialDropout1D"] = "SpatialDropout1D"


class SpatialDropout2D(_SpatialDropout):
    """Sets whole channels of [height, width, channels] to 0."""

    axes: ClassVar[int] = 2
    layer: Literal["SpatialDropout2D"] = "SpatialDropout2D"


class SpatialDropout3D(_SpatialDropout):
    """Sets whole channels of [depth, height, width, channels] to 0."""

    axes: ClassVar[int] = 3
    layer: Literal["SpatialDropout3D"] = "SpatialDropout3D"
