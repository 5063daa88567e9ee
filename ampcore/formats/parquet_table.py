"""Reads Parquet files: flat columns, lists of a fixed length, and images with their bytes.

Images are columns of bytes, or of Hugging Face's `{bytes, path}`; class names come from its
metadata.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ampcore.errors import InvalidData
from ampcore.formats.arrow_table import TableWriter
from ampcore.formats.cache import converted
from ampcore.formats.column_names import check_column_names
from ampcore.formats.encoded_images import ImageSizes
from ampcore.formats.files import DataFile, read_errors
from ampcore.formats.parquet_columns import (
    class_names,
    column_of,
    convert_values,
    image_bytes,
    is_short,
)
from ampcore.formats.place import Place
from ampcore.formats.source import Column, Request, Split, choose_columns
from ampcore.formats.table_files import files_of_split, splits_of, table_files
from ampcore.formats.table_source import TableSource
from ampcore.spec.file_formats import ParquetOptions
from ampcore.spec.text import join_names

BATCH_ROWS: Final = 8192
BATCH_VALUES: Final = 512
"""Rows at once where values may be long: a file can repeat one of them without being large."""
BUFFER_BYTES: Final = 2**20
MAX_METADATA_BYTES: Final = 64 * 2**20
MAX_METADATA_ITEMS: Final = 10_000_000
SAMPLE_ROWS: Final = 16
SUPPORTED: Final = "numbers, booleans, text, dates, lists of numbers of a fixed length, or images"


def is_parquet(name: str) -> bool:
    """Whether a file in a folder is a Parquet file."""
    return name.lower().endswith((".parquet", ".pq"))


def parquet_splits(request: Request, options: ParquetOptions) -> tuple[Split, ...]:
    """The splits in the files' names. Raises InvalidData."""
    return splits_of(table_files(request, is_parquet))


def open_parquet(request: Request, options: ParquetOptions) -> TableSource:
    """The wanted columns of a split, by default all of supported types. Raises InvalidData."""
    files = files_of_split(request, table_files(request, is_parquet))
    key = (
        "parquet",
        request.name,
        options.missing,
        request.columns and sorted(request.columns),
        [file.fingerprint() for file in files],
    )
    folder = converted(
        request.cache, key, lambda folder: _Conversion(request, options, files).write(folder)
    )
    return TableSource(request, folder, options.image)


class _Conversion:
    """Converts the wanted columns of all files to one table."""

    def __init__(
        self, request: Request, options: ParquetOptions, files: Sequence[DataFile]
    ) -> None:
        self._request, self._options, self._files = request, options, files
        self._limits = request.limits
        self._sizes: dict[str, ImageSizes] = {}
        self._types: dict[str, pa.DataType] = {}

    def write(self, folder: Path) -> None:
        columns = self._columns()
        for name, column in columns.items():
            if column.dtype == "image":
                self._sizes[name] = ImageSizes(self._limits.pixels)
        writer = TableWriter(folder, self._request.name, columns, self._limits)
        for file in self._files:
            row = 0
            for batch in _batches(file, self._types):
                arrays = [
                    self._convert(file, row, name, column, batch.column(name))
                    for name, column in columns.items()
                ]
                writer.write(pa.record_batch(arrays, schema=writer.schema))
                row += batch.num_rows
            writer.count_rows(file.name, row)
        table = writer.close()
        images = {
            name: replace(table.columns[name], shape=(*sizes.common, 0))
            for name, sizes in self._sizes.items()
        }
        replace(table, columns={**table.columns, **images}).write(folder)

    def _columns(self) -> dict[str, Column]:
        """The columns to convert. Raises InvalidData for a wanted one of another type."""
        schema, first = _first_rows(self._request.name, self._files)
        check_column_names(Place(self._request.name), schema.names, self._limits)
        names = choose_columns(self._request.name, schema.names, self._request.columns)
        classes = class_names(schema)
        found = {}
        for name in names:
            column = column_of(schema.field(name).type, first.column(name))
            if column is not None:
                found[name] = replace(column, classes=classes.get(name))
            elif self._request.columns is not None:
                raise InvalidData(
                    self._request.name,
                    f"column {name}",
                    expected=SUPPORTED,
                    received=str(schema.field(name).type)[:100],
                )
        if not found:
            types = join_names(f"{field.name}: {field.type}"[:100] for field in schema)
            raise InvalidData(
                self._request.name, None, expected=f"a column with {SUPPORTED}", received=types
            )
        self._types = {name: schema.field(name).type for name in found}
        return found

    def _convert(
        self, file: DataFile, first_row: int, name: str, column: Column, values: Any
    ) -> Any:
        """Values as they are stored. Raises InvalidData for a bad row."""

        def invalid(row: int, expected: str, received: str) -> InvalidData:
            field = f"row {first_row + row + 1}, column {name}"
            return InvalidData(file.name, field, expected=expected, received=received)

        is_image = column.dtype == "image"
        values = image_bytes(values) if is_image else values
        can_miss = column.shape == () and not is_image
        if values.null_count and not (can_miss and self._options.missing == "keep"):
            row = values.is_null().index(True).as_py()
            raise invalid(row, "a value, or `missing: keep`" if can_miss else "a value", "none")
        if is_image:
            sizes = self._sizes[name]
            for row, content in enumerate(values.to_pylist()):
                sizes.add(content, Place(file.name, f"row {first_row + row + 1}, column {name}"))
            return values.cast(pa.binary())
        return convert_values(values, column, invalid)


def _first_rows(name: str, files: Sequence[DataFile]) -> tuple[pa.Schema, pa.RecordBatch]:
    """The schema and some rows of the first file that has rows. Raises InvalidData."""
    for file in files:
        with _open(file) as parquet:
            for batch in parquet.iter_batches(SAMPLE_ROWS, use_threads=False):
                if batch.num_rows:
                    schema = parquet.schema_arrow
                    _ = schema.names  # an error here is one of the file
                    return schema, batch
    raise InvalidData(name, None, expected="at least one row", received="none")


def _batches(file: DataFile, types: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    """The rows of a file with columns of these types. Raises InvalidData."""
    with _open(file) as parquet:
        schema = parquet.schema_arrow
        for name, dtype in types.items():
            held = schema.field(name).type if schema.names.count(name) == 1 else "no such column"
            if held != dtype:
                raise InvalidData(
                    file.name,
                    f"column {name}",
                    expected=f"{dtype}, as in the first file"[:100],
                    received=str(held)[:100],
                )
        rows = BATCH_ROWS if all(map(is_short, types.values())) else BATCH_VALUES
        yield from parquet.iter_batches(rows, columns=list(types), use_threads=False)


@contextmanager
def _open(file: DataFile) -> Iterator[pq.ParquetFile]:
    """Open a file; turn errors while reading into InvalidData."""
    with read_errors(file.name):
        if not file.path.is_file():
            raise InvalidData(file.name, None, expected="a file", received="no file of this name")
        try:
            with (
                pa.OSFile(str(file.path)) as stream,
                pq.ParquetFile(
                    stream,
                    buffer_size=BUFFER_BYTES,
                    pre_buffer=False,
                    thrift_string_size_limit=MAX_METADATA_BYTES,
                    thrift_container_size_limit=MAX_METADATA_ITEMS,
                    page_checksum_verification=True,
                    arrow_extensions_enabled=False,
                ) as parquet,
            ):
                yield parquet
        except pa.ArrowMemoryError:
            raise
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            # Arrow's errors about damaged files are OSErrors without a number.
            received = str(error).partition("\n")[0][:200].rstrip(".")
            raise InvalidData(
                file.name, None, expected="an undamaged Parquet file", received=received
            ) from None
