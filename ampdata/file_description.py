"""FileDescription: what a data file contains, as JSON."""

from pydantic import BaseModel, ConfigDict, JsonValue


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class ClassCount(_Part):
    """A class, and how many rows have it."""

    name: str
    rows: int


class ColumnStatistics(_Part):
    """Facts about the first rows of a column of single values."""

    rows: int
    """The rows that were looked at."""
    distinct: int | None
    """The number of different values; None for more than 1,000."""
    is_unique: bool
    """Whether no value occurs twice."""
    is_counted: bool
    """Whether the values are consecutive whole numbers, as those of rows."""
    is_whole: bool
    """Whether all numbers are whole."""
    low: float | None = None
    high: float | None = None
    mean_length: float | None = None
    """Of texts, in characters."""
    shortest: str | None = None
    """One of the texts, up to 40 characters."""


class ArrayRange(_Part):
    """The range of the finite numbers in the first rows of a column of arrays."""

    rows: int
    """The rows that were looked at."""
    low: float
    high: float
    is_whole: bool
    """Whether all numbers are whole."""


class ColumnDescription(_Part):
    """One column."""

    name: str
    dtype: str
    shape: list[int | None]
    """The shape of one example; None where images differ."""
    missing: int
    """The rows without a value."""
    classes: list[ClassCount] | None
    """At most 1,000; None where the format has no class names."""
    statistics: ColumnStatistics | None = None
    """None for arrays and images."""
    range: ArrayRange | None = None
    """None for columns of single values and for images."""


class LeftOutDescription(_Part):
    """A column, file or class that is not read, and why."""

    name: str
    reason: str


class Picture(_Part):
    """One image of the preview."""

    column: str
    row: int
    png: str
    """A small PNG file in base64."""


class FileDescription(_Part):
    """What a data file contains."""

    kind: str
    options: dict[str, JsonValue]
    """How the file was read: what a spec needs to read it in the same way."""
    size_bytes: int
    rows: int
    """Of all splits."""
    splits: dict[str, int]
    """Rows by split; empty for data without splits."""
    columns: list[ColumnDescription]
    """Of the first split, as the preview."""
    left_out: list[LeftOutDescription] = []
    """What is in the data and not read; at most 100."""
    preview: list[dict[str, JsonValue]]
    pictures: list[Picture]
