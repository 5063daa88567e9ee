"""Statistics of a column: distinct values, range, length of texts."""

import math
from typing import Final

import numpy as np

from ampdata.file_description import ColumnStatistics
from ampdata.images.image_codec import decode_mask
from ampdata.place import Place
from ampdata.source import Array, Column, Source

MAX_VALUES: Final = 2_000_000
"""Maximum number of values read from the first rows of all columns."""
MAX_ROWS: Final = 100_000
MAX_DISTINCT: Final = 1000
MASK: Final = "mask"
MAX_MASKS: Final = 32
MAX_MASK_PIXELS: Final = 2**26
ROWS_AT_ONCE: Final = 16_384


def column_statistics(source: Source) -> dict[str, ColumnStatistics]:
    """The statistics of columns with one number, boolean or text in each row, also as (rows, 1).

    Raises InvalidData for a bad row.
    """
    masks = {name: _mask_statistics(source, name) for name in source.columns if name == MASK}
    names = [name for name, column in source.columns.items() if _has_single_values(column)]
    if not names:
        return masks
    rows = min(source.rows, MAX_ROWS, max(100, MAX_VALUES // len(names)))
    parts: dict[str, list[Array]] = {name: [] for name in names}
    for start in range(0, rows, ROWS_AT_ONCE):
        numbers = np.arange(start, min(start + ROWS_AT_ONCE, rows))
        for name, values in source.read(numbers, names).items():
            parts[name].append(values.reshape(-1))
    return masks | {name: _statistics(np.concatenate(parts[name])) for name in names}


def _mask_statistics(source: Source, name: str) -> ColumnStatistics:
    """The statistics of the first masks, decoded in their original sizes."""
    rows = min(source.rows, MAX_MASKS)
    try:
        files = [source.image_bytes(name, row) for row in range(rows)]
    except KeyError:
        values = source.read(np.arange(rows), [name])[name].ravel()
    else:
        places = [Place(source.image_name(name, row)) for row in range(rows)]
        masks = [
            decode_mask(content, None, place, MAX_MASK_PIXELS).ravel()
            for content, place in zip(files, places, strict=True)
        ]
        values = np.concatenate(masks)
    return _statistics(values).model_copy(update={"rows": rows, "is_counted": False})


def _has_single_values(column: Column) -> bool:
    return column.shape in ((), (1,)) and column.dtype != "image"


def _statistics(values: Array) -> ColumnStatistics:
    rows = len(values)
    if values.dtype == object:
        texts = [text for text in values if text is not None]
        words = set(texts)
        return ColumnStatistics(
            rows=rows,
            distinct=_bounded(len(words)),
            is_unique=len(words) == len(texts),
            is_counted=False,
            is_whole=False,
            mean_length=sum(map(len, texts)) / len(texts) if texts else None,
            shortest=min(words, key=len)[:40] if words else None,
        )
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    different = np.unique(finite)
    is_whole = bool((finite == np.floor(finite)).all()) if finite.dtype.kind == "f" else True
    steps = np.diff(finite.astype(np.float64))
    low, high = (float(different[0]), float(different[-1])) if len(different) else (None, None)
    return ColumnStatistics(
        rows=rows,
        distinct=_bounded(len(different)),
        is_unique=len(different) == len(finite),
        is_counted=rows > 2 and len(finite) == rows and is_whole and bool((steps == 1).all()),
        is_whole=is_whole,
        low=low,
        high=high if high is None or math.isfinite(high) else None,
    )


def _bounded(count: int) -> int | None:
    return count if count <= MAX_DISTINCT else None
