"""FileDescription: what a data file contains, as JSON."""

from pydantic import BaseModel, ConfigDict, JsonValue

from ampcore.formats.column_statistics import ColumnStatistics


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class ClassCount(_Part):
    """A class, and how many rows have it."""

    name: str
    rows: int


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
