"""TableSource: random access to the rows of a converted table."""

import math
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ampdata.decoding_threads import DecodingThreads
from ampdata.place import Place
from ampdata.row_places import RowPlaces
from ampdata.source import Array, Column, Indices, OpenRequest, Source, choose_columns
from ampdata.tables.arrow_table import TABLE, StoredTable
from ampspec.data.file_formats import ImageOptions
from ampspec.errors import InvalidData


class TableSource(Source):
    """The rows of a table in the cache, memory-mapped."""

    def __init__(
        self, request: OpenRequest, folder: Path, image: ImageOptions | None = None
    ) -> None:
        """Open the table in `folder`. Raises InvalidData: a requested column or size is missing."""
        stored = StoredTable.read(folder)
        self._request, self._image = request, image or ImageOptions()
        self._stored, self._files = stored.columns, stored.files
        names = _choose(request, stored)
        self.rows, self.left_out = stored.rows, stored.left_out
        self.columns = {name: self._column(name, stored.columns[name]) for name in names}
        self._file = pa.memory_map(str(folder / TABLE))
        self._reader = pa.ipc.open_file(self._file)
        count = self._reader.num_record_batches
        self._batches: list[pa.RecordBatch | None] = [None] * count
        self._views: dict[tuple[int, str], Array] = {}
        self._lock = threading.Lock()
        self._threads = DecodingThreads()
        sizes = [self._batch(number).num_rows for number in range(count)]
        self._ends = np.cumsum(sizes)

    def row_places(self) -> RowPlaces:
        """The rows of the files that were converted."""
        return RowPlaces(list(self._files), list(self._files.values()))

    def image_bytes(self, column: str, row: int) -> bytes:
        """The file of an image."""
        if self._stored[column].dtype != "image":
            raise KeyError(column)
        number = int(np.searchsorted(self._ends, row, side="right"))
        batch = self._batch(number)
        value: bytes = batch.column(column)[row - self._start(number)].as_py()
        return value

    def check(self) -> None:
        """Decode every image. Raises InvalidData, which names all damaged ones."""
        from ampdata.images.image_codec import decode_image

        names = [name for name, column in self.columns.items() if column.dtype == "image"]

        def decode(item: int) -> None:
            name, row = names[item // self.rows], item % self.rows
            place = Place(self._request.name, f"row {row + 1}, column {name}")
            max_pixels = self._request.limits.pixels
            decode_image(self.image_bytes(name, row), self._image, place, max_pixels)

        self._threads.run_all(decode, len(names) * self.rows, self._request.name)

    def close(self) -> None:
        """Close the table; arrays that were read stay valid."""
        self._views.clear()
        self._batches = [None] * len(self._batches)
        self._threads.close()
        self._file.close()

    def _read(self, indices: Indices, columns: Mapping[str, Column]) -> dict[str, Array]:
        numbers = np.searchsorted(self._ends, indices, side="right")
        order = np.argsort(numbers, kind="stable")
        used, starts = np.unique(numbers[order], return_index=True)
        parts = np.split(order, starts[1:]) if len(used) else []
        groups = [
            (int(number), positions, indices[positions] - self._start(int(number)))
            for number, positions in zip(used, parts, strict=True)
        ]
        read = {}
        for name, column in columns.items():
            values = np.empty((len(indices), *column.shape), _numpy_dtype(column))
            for number, positions, rows in groups:
                values[positions] = self._values(name, column, number, rows)
            read[name] = values
        return read

    def _values(self, name: str, column: Column, number: int, rows: Indices) -> Array:
        """The values of a column at rows of one batch."""
        stored = self._stored[name]
        values = self._batch(number).column(name)
        is_bytes = pa.types.is_binary(values.type)
        if not is_bytes and not stored.missing:
            return self._view(name, stored, number)[rows]
        taken = values.take(pa.array(rows))
        if stored.dtype == "string":
            return _strings(taken)
        if stored.dtype == "image":
            return self._decode(name, column, taken, rows + self._start(number))
        if is_bytes:  # arrays of uint8
            return np.frombuffer(b"".join(taken.to_pylist()), np.uint8).reshape(-1, *column.shape)
        return self._with_nan(name, column, taken)

    def _view(self, name: str, column: Column, number: int) -> Array:
        """A whole column of a batch, without a copy."""
        if (view := self._views.get((number, name))) is None:
            values = self._batch(number).column(name)
            if pa.types.is_fixed_size_list(values.type):
                values = values.flatten()
            view = values.to_numpy(zero_copy_only=True)
            view = view.view(np.bool_ if column.dtype == "bool" else view.dtype)
            self._views[number, name] = view = view.reshape(-1, *column.shape)
        return view

    def _with_nan(self, name: str, column: Column, values: Any) -> Array:
        """Numbers as float64 with NaN for missing ones."""
        try:
            numbers = values.cast(pa.float64())
        except pa.ArrowInvalid as error:
            raise InvalidData(
                self._request.name,
                f"column {name}",
                expected="integers up to 2^53 in a column with missing values",
                received=str(error)[:200],
            ) from None
        filled: Array = pc.fill_null(numbers, float("nan")).to_numpy(zero_copy_only=False)
        return filled

    def _decode(self, name: str, column: Column, images: Any, rows: Indices) -> Array:
        from ampdata.images.image_codec import decode_image

        pixels = np.empty((len(rows), *column.shape), np.uint8)
        contents, max_pixels = images.to_pylist(), self._request.limits.pixels

        def decode(at: int) -> None:
            place = Place(self._request.name, f"row {rows[at] + 1}, column {name}")
            pixels[at] = decode_image(contents[at], self._image, place, max_pixels)

        stored = math.prod(self._stored[name].shape[:2]) or None
        self._threads.run_all(decode, len(rows), self._request.name, pixels=stored)
        return pixels

    def _column(self, name: str, stored: Column) -> Column:
        """The column as it is read."""
        if stored.dtype == "image":
            height, width = self._image.size or stored.shape[:2]
            if not height and not self._request.any_size:
                raise InvalidData(
                    self._request.name,
                    f"column {name}",
                    expected="images of one size, or the option `size`",
                    received="images of different sizes",
                )
            return replace(stored, shape=(height, width, self._image.channels))
        if stored.missing and stored.dtype != "string":
            return replace(stored, dtype="float64")
        return stored

    def _start(self, number: int) -> int:
        return int(self._ends[number - 1]) if number else 0

    def _batch(self, number: int) -> pa.RecordBatch:
        if (batch := self._batches[number]) is None:
            with self._lock:
                batch = self._batches[number] = self._reader.get_batch(number)
        return batch


def _choose(request: OpenRequest, stored: StoredTable) -> list[str]:
    """The requested columns. Raises InvalidData if one cannot be read."""
    reasons = {
        part.name: part.reason for part in stored.left_out if part.name not in stored.columns
    }
    available = [*stored.columns, *(() if request.columns is None else reasons)]
    names = choose_columns(request.name, available, request.columns)
    for name in names:
        if name in stored.damaged:
            raise stored.damaged[name].error()
        if name in reasons:
            expected = "a column that can be read, or other `inputs`"
            raise InvalidData(
                request.name, f"column {name}", expected=expected, received=reasons[name]
            )
    return names


def _numpy_dtype(column: Column) -> type | str:
    match column.dtype:
        case "image":
            return "uint8"
        case "string":
            return object
    return column.dtype


def _strings(values: Any) -> Array:
    texts = np.empty(len(values), object)
    texts[:] = values.cast(pa.string()).to_pylist()
    return texts
