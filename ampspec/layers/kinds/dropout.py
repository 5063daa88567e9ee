"""Layers that add noise in training; the job's seed decides their random numbers."""

from typing import Annotated

from pydantic import Field

from ampspec.layers.base import Elementwise
from ampspec.layers.fields import MAX_AXIS, MAX_WIDTH, Rate
from ampspec.layers.inference import Inference, Shape, ShapeError

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


class AlphaDropout(_Dropout):
    """Dropout that keeps mean and variance, for selu. Source: Klambauer et al. 2017."""


class GaussianDropout(Elementwise):
    """Multiplies by random numbers around 1."""

    rate: Rate


class GaussianNoise(Elementwise):
    """Adds random numbers around 0."""

    stddev: Annotated[float, Field(ge=0, le=1e6)]


class _SpatialDropout(Elementwise):
    rate: Rate

    def infer(self, *shapes: Shape) -> Inference:
        """The same shape."""
        self.spatial_shape(shapes[0])
        return Inference(shapes[0])


class SpatialDropout1D(_SpatialDropout, rank=1):
    """Sets whole channels of [steps, channels] to 0."""


class SpatialDropout2D(_SpatialDropout, rank=2):
    """Sets whole channels of [height, width, channels] to 0."""


class SpatialDropout3D(_SpatialDropout, rank=3):
    """Sets whole channels of [depth, height, width, channels] to 0."""
