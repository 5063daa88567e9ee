"""Recognizes the format of a data file by its content."""

import gzip
import re
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from ampdata.arrays.npy import MAGIC as NPY
from ampdata.arrays.npz import SUFFIX as NPY_SUFFIX
from ampdata.csv.csv_dialect import SAMPLE_BYTES, recognize_csv
from ampdata.csv.csv_encoding import decode_start, guess_encoding
from ampdata.csv.csv_table import SUFFIXES as CSV_SUFFIXES
from ampdata.csv.csv_table import is_csv
from ampdata.files import GZIP, DataFile, is_ignored, list_folder, open_file
from ampdata.images.image_layout import is_picture
from ampdata.limits import Limits
from ampdata.tables.parquet_table import is_parquet
from ampdata.tfrecord.tfrecord import starts_like_tfrecord
from ampdata.tfrecord.tfrecord_table import is_tfrecord
from ampdata.zip_members import SIGNATURES, ZipMembers
from ampspec.data.file_formats import (
    CsvOptions,
    FormatOptions,
    ImagesOptions,
    NpyOptions,
    NpzOptions,
    ParquetOptions,
    TextOptions,
    TfrecordOptions,
)
from ampspec.errors import InvalidData

PARQUET: Final = b"PAR1"
KINDS: Final[dict[str, Callable[[str], bool]]] = {
    "images": is_picture,
    "parquet": is_parquet,
    "tfrecord": is_tfrecord,
    "csv": lambda name: is_csv(name.removesuffix(".gz")),
}
"""The kinds of files in folders and zips, by file name."""
FOLDER_KINDS: Final[dict[str, Callable[[], FormatOptions]]] = {
    "images": ImagesOptions,
    "parquet": ParquetOptions,
    "tfrecord": TfrecordOptions,
}
OTHER_TEXTS: Final[dict[str, re.Pattern[str]]] = {
    "JSON": re.compile(r'\ufeff?\s*(\[\s*)?\{\s*("(\\.|[^"\\])*"\s*:|\})'),
    "ARFF of Weka": re.compile(r"\ufeff?(\s*%.*\n|\s*\n)*\s*@relation\s", re.IGNORECASE),
    "LIBSVM rows": re.compile(r"([-+]?[\d.]+( +\d+:[-+.\deE]+)+ *\r?\n){2}"),
}
"""Formats that are not supported; reading them as text would train a language model."""
DEFAULT_SEQUENCE: Final = TextOptions().sequence
EXPECTED: Final = (
    "an npz, npy, csv, parquet, tfrecord or text file, or a folder or zip of images or tables"
)


def guess_options(path: Path, name: str, limits: Limits) -> FormatOptions:
    """The format of a file or folder. Raises InvalidData if none is recognized."""
    options = _of_folder(path, name, limits) if path.is_dir() else _of_file(path, name, limits)
    if options is None:
        received = "a folder without such files" if path.is_dir() else "a file of another kind"
        raise InvalidData(name, None, expected=EXPECTED, received=received)
    return options


def _of_folder(path: Path, name: str, limits: Limits) -> FormatOptions | None:
    files = list(list_folder(path, name, limits.files))
    kind, first = _most_frequent_kind(files)
    if kind == "csv":
        return _of_file(path.joinpath(*first), "/".join((name, *first)), limits)
    return FOLDER_KINDS[kind]() if kind else None


def _most_frequent_kind(paths: Iterable[tuple[str, ...]]) -> tuple[str | None, tuple[str, ...]]:
    """The most frequent kind, and its first file: a table may describe pictures."""
    first: dict[str, tuple[str, ...]] = {}
    counts: Counter[str] = Counter()
    for parts in paths:
        if kind := next((kind for kind, is_kind in KINDS.items() if is_kind(parts[-1])), None):
            first.setdefault(kind, parts)
            counts[kind] += 1
    kind = max(counts, key=lambda kind: counts[kind], default=None)
    return kind, first.get(kind or "", ())


def _of_file(path: Path, name: str, limits: Limits) -> FormatOptions | None:
    file = DataFile(path, name)
    with open_file(file) as stream:
        start = stream.read(SAMPLE_BYTES)
    if start.startswith(SIGNATURES):
        return _of_archive(file, limits)
    if start.startswith(NPY):
        return NpyOptions()
    if start.startswith(PARQUET):
        return ParquetOptions()
    start = _decompress_start(start)
    if starts_like_tfrecord(start):
        return TfrecordOptions()
    return _of_text(start, name.removesuffix(".gz"))


def _of_archive(file: DataFile, limits: Limits) -> FormatOptions | None:
    with ZipMembers(file, limits) as archive:
        members = {
            tuple(member.name.split("/")): member
            for member in archive.members
            if not any(map(is_ignored, member.name.split("/"))) and member.name[-1] != "/"
        }
        if all(parts[-1].endswith(NPY_SUFFIX) for parts in members):
            return NpzOptions()
        kind, first = _most_frequent_kind(sorted(members))
        if kind is None and len(members) == 1:
            (first,) = members
        elif kind is None and ("xl", "workbook.xml") in members:
            received = "an Excel workbook: save its table as CSV"
            raise InvalidData(file.name, None, expected=EXPECTED, received=received)
        elif kind != "csv":
            return FOLDER_KINDS[kind or "images"]()
        with tempfile.TemporaryDirectory(prefix="ampcore-formats-") as folder:
            sample = Path(folder, "sample")
            sample.write_bytes(next(archive.blocks(members[first]), b""))
            return _of_file(sample, f"{file.name}/{'/'.join(first)}", limits)


def _decompress_start(start: bytes) -> bytes:
    if not start.startswith(GZIP):
        return start
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(start, SAMPLE_BYTES)
    except (zlib.error, gzip.BadGzipFile):
        return b""


def _of_text(start: bytes, name: str) -> CsvOptions | TextOptions | None:
    """CSV by its name, or if all rows have several cells; else text."""
    is_whole = len(start) < SAMPLE_BYTES
    encoding = guess_encoding(start, is_whole=is_whole)
    if name.lower().endswith(CSV_SUFFIXES) and start and (encoding or b"\0" not in start):
        return CsvOptions()  # the reader detects the options and reports bad lines
    if encoding is None:
        return None
    text = decode_start(start, encoding, is_whole=is_whole)
    if (
        kind := next((kind for kind, pattern in OTHER_TEXTS.items() if pattern.match(text)), None)
    ) is not None:
        raise InvalidData(name, None, expected=f"{EXPECTED}; convert it to CSV", received=kind)
    if recognize_csv(text, is_whole=is_whole) is not None:
        return CsvOptions()
    if encoding != "utf-8":
        return None
    # A short text has at least one window.
    return TextOptions(sequence=max(1, min(DEFAULT_SEQUENCE, len(text) - 1)))
