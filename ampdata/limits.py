"""Limits of a data file: rows, bytes, pixels, files."""

from dataclasses import dataclass

from ampspec.data.file_formats import MAX_COLUMNS

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """A file that exceeds a limit raises InvalidData before the memory or disk is used."""

    rows: int = 2**31 - 1
    columns: int = MAX_COLUMNS
    files: int = 1_000_000
    """Files in a folder or an archive."""
    record_bytes: int = 64 * MIB
    """The size of an image file or a TFRecord record."""
    pixels: int = 2**26
    """Height × width of one image."""
    cache_bytes: int = 64 * 1024 * MIB
    """Bytes that one source may write to the cache folder."""
