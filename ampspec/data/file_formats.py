"""How a data file is read: the options of each file format, one class each.

`ampdata` reads files by them.
"""

import math
from typing import Annotated, Final, Literal, Self, TypeVar

from pydantic import Field, StringConstraints, model_validator

from ampspec.documents.base import SpecModel

AnyOptions = TypeVar("AnyOptions", bound=SpecModel)
MAX_COLUMNS: Final = 10_000
MAX_DESCRIBED_COLUMNS: Final = 1000
"""The description of an uploaded file has no more."""
MAX_SIDE: Final = 4096
MAX_VALUES: Final = 2**26

ColumnName = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Number = Literal["uint8", "int32", "int64", "float16", "float32", "float64", "bool"]
CellType = Literal["uint8", "int32", "int64", "float16", "float32", "float64", "bool", "string"]
Side = Annotated[int, Field(ge=1, le=MAX_SIDE)]
Length = Annotated[int, Field(ge=1, le=MAX_VALUES)]
SplitName = Literal["train", "validation", "test"]
Pattern = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Missing = Literal["error", "keep"]
"""`error`: a missing value is an error. `keep`: it is read as NaN, or as None in text."""


class SplitOptions(SpecModel):
    """Which part of the data is for training, where names do not tell."""

    splits: dict[SplitName, Pattern] = Field(
        default_factory=dict, exclude_if=lambda splits: not splits
    )
    """By split, a pattern for its files inside the folder or zip (`a-*.parquet`, `fold1/*`), or
    for its arrays, with one `*` for the column (`*_fit`). Null: names such as `train` decide."""


class ImageOptions(SpecModel):
    """How PNG and JPEG images become arrays (height, width, channels) of uint8."""

    size: tuple[Side, Side] | None = Field(default=None, strict=False)
    """Height and width that images are resized to; without it all must have the same size."""
    channels: Literal[1, 3] = 3
    """1 grey, 3 red, green and blue. Transparency is dropped."""
    resample: Literal["bilinear", "bicubic"] = "bilinear"
    """The filter for resizing; it covers all pixels when an image becomes smaller."""


class NpzOptions(SplitOptions):
    """NumPy's .npz. `x_train` and `x_test` are the column `x` of two splits."""

    kind: Literal["npz"] = "npz"
    x: ColumnName | None = None
    """The array that becomes the column `x`."""
    y: ColumnName | None = None
    """The array that becomes the column `y`."""


class NpyOptions(SpecModel):
    """NumPy's .npy: one array, the column `x`."""

    kind: Literal["npy"] = "npy"


Delimiter = Annotated[
    str,
    StringConstraints(min_length=1, max_length=3, pattern=r"""^([^\w\s"'.+-]+|[ \t\x01\x1f])$"""),
]
Encoding = Literal[
    "utf-8",
    "utf-16",
    "latin-1",
    "windows-1250",
    "windows-1251",
    "windows-1252",
    "windows-1253",
    "windows-1254",
    "iso-8859-2",
    "iso-8859-15",
    "koi8-r",
    "mac-roman",
    "shift_jis",
    "euc-jp",
    "euc-kr",
    "gb18030",
    "big5",
]


class CsvOptions(SplitOptions):
    """Text with one row per line (RFC 4180). What is null is found in the file."""

    kind: Literal["csv"] = "csv"
    encoding: Encoding | None = None
    """Null: UTF-8 or UTF-16, else Windows-1252 for a text with few letters beyond ASCII."""
    delimiter: Delimiter | None = None
    """What separates cells. A space stands for any number of spaces and tabs. Null: the one of
    comma, semicolon, tab, `|`, `::`, `^`, `~`, U+0001 and space with which rows have equally many
    cells."""
    quote: Literal['"', "'", ""] | None = None
    """Around cells; empty for none, where marks are characters like others."""
    trim: bool | None = None
    """Leave out spaces around cells. Null: where a space follows each delimiter."""
    skip_lines: int | None = Field(default=None, ge=0, le=1000)
    """Lines before the first row. Null: empty lines, and those with another number of cells than
    all rows after them."""
    header: bool | None = None
    """The first row names the columns; else they are `column_1`, `column_2` and so on. Null: it
    does where its cells are of another kind than those below."""
    decimal_point: Literal[".", ","] | None = None
    thousands: Literal["", ",", ".", " ", "'"] | None = None
    """What separates groups of three digits; empty for nothing. This and `decimal_point`, where
    they are null, are those with which most columns are numbers."""
    dtypes: dict[ColumnName, CellType] = Field(default_factory=dict, max_length=MAX_COLUMNS)
    """Types by column; the others are inferred from all rows."""
    missing_values: (
        Annotated[
            tuple[Annotated[str, StringConstraints(max_length=64)], ...],
            Field(strict=False, max_length=16),
        ]
        | None
    ) = None
    """Cells that stand for a missing value, in text only unquoted ones. Null: empty cells, and
    among numbers also `NA`, `N/A`, `NaN`, `null`, `None`, `?`, `-` and `.`"""
    missing: Missing = "error"


class ParquetOptions(SplitOptions):
    """Parquet with flat columns, lists of a fixed length, and images as Hugging Face has them."""

    kind: Literal["parquet"] = "parquet"
    image: ImageOptions = ImageOptions()
    missing: Missing = "error"


class ImagesOptions(ImageOptions, SplitOptions):
    """A folder or .zip of PNG and JPEG files: a folder per class, or `images` and `masks`."""

    kind: Literal["images"] = "images"


class RawBytes(SpecModel):
    """Bytes that hold an array in row-major order, little endian."""

    dtype: Number
    shape: Annotated[tuple[Length, ...], Field(strict=False, max_length=4)] = ()

    @model_validator(mode="after")
    def _limit_values(self) -> Self:
        if math.prod(self.shape) > MAX_VALUES:
            raise ValueError(f"shape must have at most {MAX_VALUES:,} values")
        return self


class TfrecordOptions(SplitOptions):
    """TFRecord files of tf.train.Example, also compressed by gzip."""

    kind: Literal["tfrecord"] = "tfrecord"
    raw: dict[ColumnName, RawBytes] = Field(default_factory=dict, max_length=MAX_COLUMNS)
    """Features whose bytes are an array."""
    image: ImageOptions = ImageOptions()
    missing: Missing = "error"


class TextOptions(SpecModel):
    """UTF-8 text in windows of `sequence` characters: `x`, and `y`, the next characters."""

    kind: Literal["text"] = "text"
    sequence: int = Field(default=128, ge=1, le=65_536)


FormatOptions = Annotated[
    NpzOptions
    | NpyOptions
    | CsvOptions
    | ParquetOptions
    | ImagesOptions
    | TfrecordOptions
    | TextOptions,
    Field(discriminator="kind"),
]


def reading_options(values: SpecModel, kind: type[AnyOptions]) -> AnyOptions:
    """The options of a file format among other values, as the data section of a job has them."""
    return kind.model_validate({name: getattr(values, name) for name in kind.model_fields})
