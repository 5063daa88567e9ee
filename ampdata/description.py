"""Describes a data file: format, rows, columns, classes, and a preview with some pictures.

The whole file is read, so a file that can be described has no bad rows; of images only the headers.
"""

import base64
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from pydantic import JsonValue

from ampdata.arrays.array_ranges import array_ranges
from ampdata.detection import guess_options
from ampdata.file_description import (
    ArrayRange,
    ClassCount,
    ColumnDescription,
    ColumnStatistics,
    FileDescription,
    LeftOutDescription,
    Picture,
)
from ampdata.files import list_folder
from ampdata.images.image_codec import encode_pixels, thumbnail
from ampdata.limits import Limits
from ampdata.opening import open_request, splits_of_request
from ampdata.place import Place
from ampdata.preview import preview_rows
from ampdata.source import Column, OpenRequest, Source
from ampdata.tables.column_statistics import column_statistics
from ampspec.data.file_formats import CsvOptions, FormatOptions, ParquetOptions, TfrecordOptions

HasMissing = CsvOptions | ParquetOptions | TfrecordOptions
PREVIEW_ROWS: Final = 10
PREVIEW_COLUMNS: Final = 100
PICTURES: Final = 8
PICTURE_SIDE: Final = 96
MIN_PICTURE_SIDE: Final = 8
MAX_PICTURE_SIDE: Final = 4096
MAX_CLASSES: Final = 1000
MAX_NAME: Final = 256
MAX_LEFT_OUT: Final = 100
ROWS_AT_ONCE: Final = 65_536


def describe(
    path: Path,
    options: FormatOptions | None = None,
    *,
    cache: Path | None = None,
    name: str | None = None,
    limits: Limits | None = None,
) -> FileDescription:
    """Read a file or folder and describe it.

    Args:
        path: The file or folder.
        options: How to read it; None to recognize the format by its content.
        cache: A folder for converted files; None for a temporary one.
        name: The file in messages; by default the last part of `path`.
        limits: The limits of the file.

    Raises:
        InvalidData: The format is unknown, or the file is damaged, too large or has a bad row.
        OSError: The cache cannot be written.
    """
    if cache is None:
        with tempfile.TemporaryDirectory(prefix="ampcore-formats-") as folder:
            return describe(path, options, cache=Path(folder), name=name, limits=limits)
    limits = limits or Limits()
    request = OpenRequest(path, name or path.name, cache, limits=limits, any_size=True)
    if options is None:
        options = guess_options(path, request.name, limits)
    # Missing values and different sizes are described; the job decides whether they are errors.
    has_missing = isinstance(options, HasMissing)
    lenient = options.model_copy(update={"missing": "keep"}) if has_missing else options
    splits = splits_of_request(request, lenient)
    rows = {}
    for split in splits[1:]:
        with open_request(replace(request, split=split), lenient) as source:
            rows[split] = source.rows
    first = splits[0] if splits else None
    with open_request(replace(request, split=first), lenient) as source:
        total = source.rows + sum(rows.values())
        statistics, ranges = column_statistics(source), array_ranges(source)
        return FileDescription(
            kind=options.kind,
            options=_reading_options(options, source.options),
            size_bytes=_size(path, request.name, limits),
            rows=total,
            splits={first: source.rows, **rows} if first else {},
            columns=[
                _describe_column(source, name, statistics.get(name), ranges.get(name))
                for name in source.columns
            ],
            left_out=[LeftOutDescription(**vars(part)) for part in source.left_out[:MAX_LEFT_OUT]],
            preview=preview_rows(source, PREVIEW_ROWS, PREVIEW_COLUMNS),
            pictures=_pictures(source, request),
        )


def _reading_options(options: FormatOptions, seen: FormatOptions | None) -> dict[str, JsonValue]:
    """The options with which a job reads the file as described.

    The job decides whether missing values are errors.
    """
    missing = {"missing": options.missing} if isinstance(options, HasMissing) else {}
    return (seen or options).model_copy(update=missing).model_dump(mode="json")


def _describe_column(
    source: Source,
    name: str,
    statistics: ColumnStatistics | None,
    array_range: ArrayRange | None,
) -> ColumnDescription:
    column = source.columns[name]
    shape = [side or None for side in column.shape]
    classes = None if column.classes is None else _count_classes(source, name, column.classes)
    return ColumnDescription(
        name=name,
        dtype=column.dtype,
        shape=shape,
        missing=column.missing,
        nan=_count_nan(source, name) if column.dtype.startswith("float") else 0,
        classes=classes,
        statistics=statistics,
        range=array_range,
    )


def _count_nan(source: Source, name: str) -> int:
    """The rows of a column of single numbers that are NaN and not missing; 0 for arrays."""
    column, count = source.columns[name], 0
    if column.shape not in ((), (1,)):
        return 0
    for start in range(0, source.rows, ROWS_AT_ONCE):
        rows = np.arange(start, min(start + ROWS_AT_ONCE, source.rows))
        count += int(np.isnan(source.read(rows, [name])[name]).sum())
    return count - column.missing


def _count_classes(source: Source, name: str, classes: Sequence[str]) -> list[ClassCount]:
    """The frequency of each class; values that are not a class are not counted."""
    counts = np.zeros(len(classes), np.int64)
    for start in range(0, source.rows, ROWS_AT_ONCE):
        rows = np.arange(start, min(start + ROWS_AT_ONCE, source.rows))
        values = source.read(rows, [name])[name].ravel()
        class_indices = values[(values >= 0) & (values < len(classes))].astype(np.int64)
        counts += np.bincount(class_indices, minlength=len(classes))
    pairs = zip(classes, counts.tolist(), strict=True)
    return [ClassCount(name=label[:MAX_NAME], rows=count) for label, count in pairs][:MAX_CLASSES]


def _pictures(source: Source, request: OpenRequest) -> list[Picture]:
    """Small pictures from all over the file, of the first column that has any."""
    name = next((name for name, column in source.columns.items() if _has_pictures(column)), None)
    if name is None:
        return []
    rows = np.unique(np.linspace(0, source.rows - 1, PICTURES).astype(np.int64))
    pictures = []
    for row in rows.tolist():
        if source.columns[name].dtype == "image":
            place = Place(f"{request.name}/{source.image_name(name, row)}")
            content = source.image_bytes(name, row)
            png = thumbnail(content, PICTURE_SIDE, place, request.limits.pixels)
        else:
            png = encode_pixels(source.read(np.array([row]), [name])[name][0], PICTURE_SIDE)
        pictures.append(Picture(column=name, row=row, png=base64.b64encode(png).decode()))
    return pictures


def _has_pictures(column: Column) -> bool:
    """Whether a column has images, or byte arrays with the shape of an image."""
    if column.dtype != "uint8" or len(column.shape) not in (2, 3):
        return column.dtype == "image"
    sides, channels = column.shape[:2], column.shape[2:]
    allowed = range(MIN_PICTURE_SIDE, MAX_PICTURE_SIDE + 1)
    return all(side in allowed for side in sides) and channels in ((), (1,), (3,))


def _size(path: Path, name: str, limits: Limits) -> int:
    if path.is_file():
        return path.stat().st_size
    files = list_folder(path, name, limits.files)
    return sum(path.joinpath(*parts).stat().st_size for parts in files)
