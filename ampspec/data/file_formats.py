"""The options for reading data files, one class for each file format.

`ampdata` uses them.
"""

import math
from typing import Annotated, Final, Literal, Self, TypeVar

from pydantic import Field, StringConstraints, model_validator

from ampspec.documents.base import SpecModel

AnyOptions = TypeVar("AnyOptions", bound=SpecModel)
MAX_COLUMNS: Final = 10_000
MAX_DESCRIBED_COLUMNS: Final = 1000
"""Maximum number of columns in the description of an uploaded file."""
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
    """Which files or arrays are for training, if their names do not tell."""

    splits: dict[SplitName, Pattern] = Field(
        default_factory=dict, exclude_if=lambda splits: not splits
    )
    """By split, a pattern for its files inside the folder or zip (`a-*.parquet`, `fold1/*`), or
    for its arrays, with one `*` for the column (`*_fit`). Empty: names such as `train` decide."""


class ImageOptions(SpecModel):
    """How PNG and JPEG images become arrays (height, width, channels) of uint8."""

    size: tuple[Side, Side] | None = Field(default=None, strict=False)
    """Height and width to resize images to; null: all images must have the same size."""
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
    """Text with one row per line (RFC 4180). Options that are null are detected in the file."""

    kind: Literal["csv"] = "csv"
    encoding: Encoding | None = None
    """Null: UTF-8 or UTF-16, else Windows-1252 for a text with few letters beyond ASCII."""
    delimiter: Delimiter | None = None
    """The separator of cells. A space stands for any number of spaces and tabs. Null: whichever of
    comma, semicolon, tab, `|`, `::`, `^`, `~`, U+0001 and space with which rows have equally many
    cells."""
    quote: Literal['"', "'", ""] | None = None
    """The quotation mark around cells; empty: none, so that marks are ordinary characters."""
    trim: bool | None = None
    """Remove spaces around cells. Null: if a space follows each delimiter."""
    skip_lines: int | None = Field(default=None, ge=0, le=1000)
    """Lines before the first row. Null: empty lines, and lines whose number of cells differs from
    all rows after them."""
    header: bool | None = None
    """Whether the first row names the columns; otherwise they are `column_1`, `column_2` and so on.
    Null: true if its cells differ in kind from the cells below."""
    decimal_point: Literal[".", ","] | None = None
    thousands: Literal["", ",", ".", " ", "'"] | None = None
    """The separator of groups of three digits; empty: none. If this or `decimal_point` is null, the
    choice that makes the most columns numbers is used."""
    dtypes: dict[ColumnName, CellType] = Field(default_factory=dict, max_length=MAX_COLUMNS)
    """Types by column; other types are inferred from all rows."""
    missing_values: (
        Annotated[
            tuple[Annotated[str, StringConstraints(max_length=64)], ...],
            Field(strict=False, max_length=16),
        ]
        | None
    ) = None
    """Cells that mean a missing value; in text columns only unquoted ones. Null: empty cells, and
    in numeric columns also `NA`, `N/A`, `NaN`, `null`, `None`, `?`, `-` and `.`"""
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
    """Extract the options of a file format from the data section of a job."""
    return kind.model_validate({name: getattr(values, name) for name in kind.model_fields})
