"""FileDescription: the contents of a data file, as JSON."""

from pydantic import BaseModel, ConfigDict, JsonValue


class _DescriptionPart(BaseModel):
    model_config = ConfigDict(frozen=True)


class ClassCount(_DescriptionPart):
    """A class and its number of rows."""

    name: str
    rows: int


class ColumnStatistics(_DescriptionPart):
    """Facts about the first rows of a column of single values."""

    rows: int
    """The number of rows read."""
    distinct: int | None
    """The number of different values; None for more than 1,000."""
    is_unique: bool
    """Whether no value occurs twice."""
    is_counted: bool
    """Whether the values are consecutive whole numbers, like row numbers."""
    is_whole: bool
    """Whether all numbers are whole."""
    low: float | None = None
    high: float | None = None
    mean_length: float | None = None
    """The mean length of texts, in characters."""
    shortest: str | None = None
    """The shortest text, up to 40 characters."""


class ArrayRange(_DescriptionPart):
    """The range of the finite numbers in the first rows of a column of arrays."""

    rows: int
    """The number of rows read."""
    low: float
    high: float
    is_whole: bool
    """Whether all numbers are whole."""


class ColumnDescription(_DescriptionPart):
    """One column."""

    name: str
    dtype: str
    shape: list[int | None]
    """The shape of one example; None where images differ."""
    missing: int
    """The rows without a value."""
    nan: int = 0
    """The rows whose number is NaN although the format could say that there is none."""
    classes: list[ClassCount] | None
    """At most 1,000; None where the format has no class names."""
    statistics: ColumnStatistics | None = None
    """None for arrays and images."""
    range: ArrayRange | None = None
    """None for columns of single values and for images."""


class LeftOutDescription(_DescriptionPart):
    """A column, file or class that is not read, and why."""

    name: str
    reason: str


class Picture(_DescriptionPart):
    """One image of the preview."""

    column: str
    row: int
    png: str
    """A small PNG file in base64."""


class FileDescription(_DescriptionPart):
    """The contents of a data file."""

    kind: str
    options: dict[str, JsonValue]
    """The options with which the file was read; a spec with them reads it in the same way."""
    size_bytes: int
    rows: int
    """The rows of all splits."""
    splits: dict[str, int]
    """Rows by split; empty for data without splits."""
    columns: list[ColumnDescription]
    """The columns of the first split, as in the preview."""
    left_out: list[LeftOutDescription] = []
    """At most 100 parts of the data that are not read."""
    preview: list[dict[str, JsonValue]]
    pictures: list[Picture]
