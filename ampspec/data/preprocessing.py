"""How columns of data become inputs of a model, and how training images are augmented."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ampspec.documents.base import SpecModel

Finite = Annotated[float, Field(ge=-1e30, le=1e30)]


class ColumnRescaling(SpecModel):
    """x · `scale` + `offset`."""

    scale: Finite = 1.0
    offset: Finite = 0.0


class Tokens(SpecModel):
    """Text as indices of its words or characters; 0 is padding, 1 is unknown."""

    split: Literal["words", "characters"] = "words"
    length: int = Field(default=128, ge=1, le=65_536)
    """Longer texts are cut, shorter ones padded."""
    max_tokens: int = Field(default=20_000, ge=3, le=1_000_000)
    """The most frequent tokens of the training examples are kept."""


class Preprocessing(SpecModel):
    """The layers between a column and the model; they are saved as a part of the model.

    Nothing is rescaled or normalized by default. Statistics, categories and tokens come from the
    training examples.
    """

    rescaling: ColumnRescaling | Literal["pixels"] | None = None
    """`pixels`: integers are divided by 255, other numbers stay as they are."""
    normalize: bool = False
    """Subtract the mean and divide by the standard deviation; of images, for each channel."""
    missing: Literal["error", "mean", "zero"] = "error"
    """The replacement for a missing number; missing text is an unknown category."""
    categories: Literal["one_hot", "integer"] | None = None
    """Treat values as categories. `integer`: row indices of an embedding table, 0 for unknown
    categories. Text without `tokens` is `one_hot` by default."""
    max_categories: int = Field(default=1000, ge=1, le=1_000_000)
    """The most frequent categories are kept; all others are unknown."""
    tokens: Tokens | None = None
    keys: bool = False
    """Integers are keys of an embedding table, not numbers."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        encodings = [self.categories is not None, self.tokens is not None, self.keys]
        numeric = self.rescaling is not None or self.normalize or self.missing != "error"
        if sum(encodings) > 1 or (any(encodings) and numeric):
            raise ValueError("either categories, tokens, keys, or rescaling, normalize and missing")
        return self


class Augmentation(SpecModel):
    """The fields that all augmentations have in common."""


Fill = Literal["reflect", "wrap", "constant", "nearest"]
Factor = Annotated[float, Field(gt=0, le=1)]


class RandomFlip(Augmentation):
    """Flips images at random."""

    layer: Literal["RandomFlip"] = "RandomFlip"
    mode: Literal["horizontal", "vertical", "horizontal_and_vertical"] = "horizontal"


class RandomRotation(Augmentation):
    """Rotates images by up to `factor` of a full turn to both sides."""

    layer: Literal["RandomRotation"] = "RandomRotation"
    factor: Factor = 0.1
    fill_mode: Fill = "reflect"


class RandomTranslation(Augmentation):
    """Shifts images by up to these shares of their height and width."""

    layer: Literal["RandomTranslation"] = "RandomTranslation"
    height_factor: Factor = 0.1
    width_factor: Factor = 0.1
    fill_mode: Fill = "reflect"


class RandomZoom(Augmentation):
    """Zooms in and out by up to `height_factor`."""

    layer: Literal["RandomZoom"] = "RandomZoom"
    height_factor: Factor = 0.1
    fill_mode: Fill = "reflect"


class RandomCrop(Augmentation):
    """Crops images to this size; validation images are resized to it."""

    layer: Literal["RandomCrop"] = "RandomCrop"
    height: int = Field(ge=1, le=4096)
    width: int = Field(ge=1, le=4096)


class RandomContrast(Augmentation):
    """Changes the contrast by a factor from 1 - `factor` to 1 + `factor`."""

    layer: Literal["RandomContrast"] = "RandomContrast"
    factor: Factor = 0.1


class RandomBrightness(Augmentation):
    """Adds up to `factor` of the value range to all pixels."""

    layer: Literal["RandomBrightness"] = "RandomBrightness"
    factor: Factor = 0.1
    value_range: tuple[Finite, Finite] = Field(default=(0.0, 1.0), strict=False)


class NoiseAugmentation(Augmentation):
    """Adds normal noise with this standard deviation."""

    layer: Literal["GaussianNoise"] = "GaussianNoise"
    stddev: float = Field(default=0.1, ge=0, le=1e6)


AnyAugmentation = Annotated[
    RandomFlip
    | RandomRotation
    | RandomTranslation
    | RandomZoom
    | RandomCrop
    | RandomContrast
    | RandomBrightness
    | NoiseAugmentation,
    Field(discriminator="layer"),
]
