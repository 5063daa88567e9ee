"""The most that one data file may need: rows, bytes, pixels, files."""

from dataclasses import dataclass

from ampspec.data.file_formats import MAX_COLUMNS

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """A file that exceeds one of these raises InvalidData before the memory or disk is used."""

    rows: int = 2**31 - 1
    columns: int = MAX_COLUMNS
    files: int = 1_000_000
    """Files in a folder or an archive."""
    record_bytes: int = 64 * MIB
    """One image file, one TFRecord record."""
    pixels: int = 2**26
    """Height × width of one image."""
    cache_bytes: int = 64 * 1024 * MIB
    """What one source may write to the cache folder."""
