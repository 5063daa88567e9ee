"""Layers of raw inputs: scaling, fixed statistics, encodings and image sizes.

They compute in float32 under every policy, and the spec sets their constants; none are learned.
"""

import itertools
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ampspec.layers.base import SPATIAL_AXES, Elementwise, Layer
from ampspec.layers.fields import Axes, Count, Number, Numbers
from ampspec.layers.inference import (
    Inference,
    Shape,
    ShapeError,
    axis_indices,
    require_rank,
    require_vector,
)
from ampspec.layers.kinds.reshaping import Interpolation

Pixels = Annotated[int, Field(ge=1, le=65_536)]


class Rescaling(Elementwise):
    """x · `scale` + `offset`."""

    scale: Number
    offset: Number = 0.0


class Normalization(Layer):
    """(x - `mean`) / √`variance`, with one number for all values or one per entry of the axes."""

    axis: Axes = -1
    mean: Annotated[float | tuple[float, ...], Numbers()]
    variance: Annotated[float | tuple[float, ...], Numbers()]
    invert: bool = False
    """Whether the inverse is computed: x · √`variance` + `mean`."""

    @model_validator(mode="after")
    def _variance_is_positive(self) -> Self:
        entries = self.variance if isinstance(self.variance, tuple) else (self.variance,)
        if min(entries) < 0:
            raise ValueError("variances of at least 0")
        return self

    def infer(self, *shapes: Shape) -> Inference:
        """The same shape."""
        [shape] = shapes
        indices = axis_indices(self.axis, shape)
        for field in ("mean", "variance"):
            value = getattr(self, field)
            if isinstance(value, tuple) and (len(indices) != 1 or len(value) != shape[indices[0]]):
                sizes = [shape[index] for index in indices]
                expected = f"a number, or {sizes[0]} numbers" if len(sizes) == 1 else "a number"
                raise ShapeError(field, expected=expected, received=f"{len(value)} numbers")
        return Inference(shape)


class CategoryEncoding(Layer):
    """Category indices as vectors of 0 and 1, or of counts."""

    num_tokens: Count
    """The number of categories; inputs are from 0 to `num_tokens` - 1."""
    output_mode: Literal["multi_hot", "one_hot", "count"] = "multi_hot"

    def infer(self, *shapes: Shape) -> Inference:
        """one_hot adds an axis, unless the last one has size 1; the others replace the last."""
        [shape] = shapes
        require_vector(shape)
        kept = shape if self.output_mode == "one_hot" and shape[-1] != 1 else shape[:-1]
        return Inference((*kept, self.num_tokens))


class Discretization(Elementwise):
    """The index of the interval between `bin_boundaries` that contains x, from 0."""

    bin_boundaries: Annotated[tuple[float, ...], Numbers(4096, listed=True)]
    """In ascending order."""

    @model_validator(mode="after")
    def _boundaries_ascend(self) -> Self:
        if any(upper <= lower for lower, upper in itertools.pairwise(self.bin_boundaries)):
            raise ValueError("bin_boundaries in ascending order")
        return self


class _ImageSize(Layer):
    height: Pixels
    width: Pixels

    def infer(self, *shapes: Shape) -> Inference:
        """[…, channels] to [height, width, channels]."""
        require_rank(shapes[0], SPATIAL_AXES[2])
        return Inference((self.height, self.width, shapes[0][-1]))


class Resizing(_ImageSize):
    """Resizes images."""

    interpolation: Interpolation = "bilinear"
    crop_to_aspect_ratio: bool = False
    pad_to_aspect_ratio: bool = False
    fill_value: Number = 0.0
    """The value of the pixels that `pad_to_aspect_ratio` adds."""
    antialias: bool = False

    @model_validator(mode="after")
    def _crops_or_pads(self) -> Self:
        if self.crop_to_aspect_ratio and self.pad_to_aspect_ratio:
            raise ValueError("crop_to_aspect_ratio or pad_to_aspect_ratio, not both")
        return self


class CenterCrop(_ImageSize):
    """The middle of images; smaller images are enlarged."""
