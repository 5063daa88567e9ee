"""Reads Parquet files: flat columns, lists of a fixed length, and images with their bytes.

Images are columns of bytes, or of Hugging Face's `{bytes, path}`; class names come from its
metadata. All files of a folder decide the columns and their types; Hive folders
(`label=cat`) are columns, too.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ampdata.cache import converted
from ampdata.column_names import check_column_names
from ampdata.files import DataFile, read_errors
from ampdata.images.encoded_images import ImageSizes
from ampdata.place import Place
from ampdata.source import Column, LeftOut, ListedColumns, OpenRequest, Split, choose_columns
from ampdata.tables.arrow_table import StoredTable, TableWriter, storage_type
from ampdata.tables.parquet_columns import (
    class_names,
    column_of,
    convert_values,
    image_bytes,
    is_ragged,
    needs_sample,
    pandas_index,
    plain_type,
    plain_values,
)
from ampdata.tables.table_files import (
    TableFiles,
    files_of_split,
    hive_values,
    split_column,
    splits_of,
    table_files,
)
from ampdata.tables.table_source import TableSource
from ampspec.data.file_formats import ParquetOptions
from ampspec.documents.text import join_names
from ampspec.errors import InvalidData

BATCH_ROWS: Final = 8192
BATCH_VALUES: Final = 512
"""Rows per batch if values may be long: a small file can repeat a long value."""
BUFFER_BYTES: Final = 2**20
MAX_METADATA_BYTES: Final = 64 * 2**20
MAX_METADATA_ITEMS: Final = 10_000_000
SAMPLE_ROWS: Final = 16
SUPPORTED: Final = "numbers, booleans, text, dates, lists of numbers of a fixed length, or images"
INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,17}")
NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def is_parquet(name: str) -> bool:
    """Whether a file in a folder is a Parquet file."""
    return name.lower().endswith((".parquet", ".pq"))


def parquet_splits(request: OpenRequest, options: ParquetOptions) -> tuple[Split, ...]:
    """The splits in the files' names. Raises InvalidData."""
    return splits_of(table_files(request, is_parquet))


def parquet_columns(request: OpenRequest, options: ParquetOptions) -> ListedColumns:
    """The columns, from the schemas and first values of all files. Raises InvalidData."""
    table = _read_schema(request, table_files(request, is_parquet))
    return ListedColumns(
        {name: table.columns[name] for name in _default_names(table)}, table.left_out
    )


def open_parquet(request: OpenRequest, options: ParquetOptions) -> TableSource:
    """The requested columns of a split, by default all readable ones. Raises InvalidData."""
    files = table_files(request, is_parquet)
    chosen = files_of_split(request, files)
    table = _read_schema(request, files)
    columns = _choose(request, table)
    key = (
        "parquet",
        request.name,
        options.missing,
        request.columns is None,
        columns,
        [file.fingerprint() for file in chosen],
    )
    folders = _folder_columns(request, files, chosen)
    conversion = _ParquetConversion(request, options, chosen, folders)
    folder = converted(request.cache, key, lambda folder: conversion.write(folder, columns))
    source = TableSource(request, folder, options.image)
    source.left_out = [*table.left_out, *source.left_out]
    return source


def _default_names(table: StoredTable) -> list[str]:
    left_out = {part.name for part in table.left_out}
    return [name for name in table.columns if name not in left_out]


def _choose(request: OpenRequest, table: StoredTable) -> dict[str, Column]:
    """The requested columns. Raises InvalidData if one cannot be read, or none can."""
    reasons = {part.name: part.reason for part in table.left_out}
    names = _default_names(table)
    if request.columns is not None:
        names = choose_columns(request.name, {**table.columns, **reasons}, request.columns)
    elif not names and table.columns:  # reading them reports the bad row
        names = list(table.columns)
    elif not names:
        received = join_names(f"{name}: {reason}" for name, reason in reasons.items())
        expected = f"a column with {SUPPORTED}"
        raise InvalidData(request.name, None, expected=expected, received=received or "none")
    for name in names:
        if name not in table.columns:
            raise InvalidData(
                request.name, f"column {name}", expected=SUPPORTED, received=reasons[name]
            )
    return {name: table.columns[name] for name in names}


def _read_schema(request: OpenRequest, files: TableFiles) -> StoredTable:
    """The columns of all files of all splits, as a table without rows. Raises InvalidData."""
    every = [file for part in files.values() for file in part]
    key = ("parquet schema", request.name, [file.fingerprint() for file in every])
    folders = _folder_columns(request, files, every)

    def write(folder: Path) -> None:
        types, index, classes = _types(request, every)
        for name, values in folders.items():
            types.setdefault(name, {values.type: "the names of folders"})
        check_column_names(Place(request.name), list(types), request.limits)
        unified = {name: _unified(dtypes) for name, dtypes in types.items()}
        samples = _samples(every, unified)
        columns, left_out = {}, []
        for name, dtype in unified.items():
            column = None if dtype is None else column_of(dtype, samples[name])
            if column is not None:
                columns[name] = replace(column, classes=classes.get(name))
            if name in index:
                left_out.append(LeftOut(name, "the index of a pandas frame"))
            elif column is None:
                left_out.append(LeftOut(name, _types_text(types[name])))
            elif is_ragged(samples[name]):
                left_out.append(LeftOut(name, "lists of several lengths"))
        StoredTable(0, columns, {}, left_out).write(folder)

    return StoredTable.read(converted(request.cache, key, write))


def _types(
    request: OpenRequest, files: Sequence[DataFile]
) -> tuple[dict[str, dict[pa.DataType, str]], set[str], dict[str, tuple[str, ...]]]:
    """The types of each column, each with a file; the index of pandas; the class names."""
    types: dict[str, dict[pa.DataType, str]] = {}
    index: set[str] = set()
    classes: dict[str, tuple[str, ...]] = {}
    for file in files:
        with _open(file) as parquet:
            schema = parquet.schema_arrow
            check_column_names(Place(file.name), schema.names, request.limits)
            index.update(pandas_index(schema))
            classes = class_names(schema) | classes
            for field in schema:
                types.setdefault(field.name, {}).setdefault(plain_type(field.type), file.name)
    return types, index, classes


def _types_text(types: Mapping[pa.DataType, str]) -> str:
    """The types of a column that cannot be read."""
    if len(types) > 1:
        return join_names(f"{str(dtype)[:100]} in {file}" for dtype, file in types.items())
    (dtype,) = types
    if pa.types.is_null(dtype):
        return "no values"
    hint = ", without images and lists of one length" if needs_sample(dtype) else ""
    return f"{str(dtype)[:100]}{hint}"


def _unified(types: Iterable[pa.DataType]) -> pa.DataType | None:
    """The type that holds the values of all; None if there is none."""
    schemas = [pa.schema([("column", dtype)]) for dtype in types]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None


def _samples(files: Sequence[DataFile], types: Mapping[str, pa.DataType | None]) -> dict[str, Any]:
    """The first values of columns whose type depends on them; empty for other columns."""
    samples = {name: pa.nulls(0, dtype) for name, dtype in types.items() if dtype is not None}
    pending = {name for name, dtype in types.items() if dtype is not None and needs_sample(dtype)}
    for file in files:
        if not pending:
            break
        for batch in _batches(file, sorted(pending), SAMPLE_ROWS):
            for name in pending.intersection(batch.schema.names):
                values = plain_values(batch.column(name))
                values = values.filter(image_bytes(values).is_valid())
                if len(values):
                    samples[name] = values.cast(types[name])
                    pending.discard(name)
            if not pending.intersection(batch.schema.names):
                break
    return samples


def _folder_columns(
    request: OpenRequest, files: TableFiles, chosen: Sequence[DataFile]
) -> dict[str, Any]:
    """The values in the names of folders, one for each file, as numbers if all are."""
    values = [hive_values(request, file) for file in chosen]
    split = split_column(request, files)
    names = dict.fromkeys(name for file_values in values for name in file_values if name != split)
    return {name: _typed([file_values.get(name) for file_values in values]) for name in names}


def _typed(values: list[str | None]) -> Any:
    texts = pa.array(values, pa.string())
    for dtype, pattern in ((pa.int64(), INTEGER), (pa.float64(), NUMBER)):
        if all(value is None or pattern.fullmatch(value) for value in values):
            return texts.cast(dtype)
    return texts


class _Unreadable(InvalidData):
    """A value that does not fit into its column."""


class _ParquetConversion:
    """Converts the requested columns of some files to one table.

    A column with unfit values is left out, unless it is requested by name.
    """

    def __init__(
        self,
        request: OpenRequest,
        options: ParquetOptions,
        files: Sequence[DataFile],
        folders: Mapping[str, Any],
    ) -> None:
        self._request, self._options, self._files = request, options, files
        self._folders = folders
        self._limits = request.limits
        self._sizes: dict[str, ImageSizes] = {}
        self._left_out: dict[str, LeftOut] = {}
        self._count = 0

    def write(self, folder: Path, columns: Mapping[str, Column]) -> None:
        """Write the table. Raises InvalidData for a bad row."""
        self._count = len(columns)
        for name, column in columns.items():
            if column.dtype == "image":
                self._sizes[name] = ImageSizes(self._limits.pixels)
        is_short = all(pa.types.is_primitive(storage_type(column)) for column in columns.values())
        rows = BATCH_ROWS if is_short else BATCH_VALUES
        writer = TableWriter(folder, self._request.name, columns, self._limits)
        for number, file in enumerate(self._files):
            row = 0
            for batch in _batches(file, list(columns), rows):
                arrays = [
                    self._array(number, row, batch, name, column)
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
        stored = {
            name: images.get(name, column)
            for name, column in table.columns.items()
            if name not in self._left_out
        }
        replace(table, columns=stored, left_out=[*self._left_out.values()]).write(folder)

    def _array(
        self, number: int, first_row: int, batch: pa.RecordBatch, name: str, column: Column
    ) -> Any:
        """Values as they are stored. Raises InvalidData for a bad row."""
        try:
            if name not in self._left_out:
                return self._convert(number, first_row, batch, name, column)
        except _Unreadable as error:
            if self._request.columns is not None or len(self._left_out) + 1 == self._count:
                raise
            self._left_out[name] = LeftOut(name, str(error).rstrip("."))
        return pa.nulls(batch.num_rows, storage_type(column))

    def _convert(
        self, number: int, first_row: int, batch: pa.RecordBatch, name: str, column: Column
    ) -> Any:
        file, is_image = self._files[number], column.dtype == "image"
        can_miss = column.shape == () and not is_image

        def unreadable(row: int, expected: str, received: str) -> InvalidData:
            field = f"row {first_row + row + 1}, column {name}"
            return _Unreadable(file.name, field, expected=expected, received=received)

        if name in batch.schema.names:
            values = image_bytes(plain_values(batch.column(name)))
        elif name in self._folders:
            values = pa.repeat(self._folders[name][number], batch.num_rows)
        else:
            values = pa.nulls(batch.num_rows)
        if values.null_count and not (can_miss and self._options.missing == "keep"):
            row = values.is_null().index(True).as_py()
            field, received = f"row {first_row + row + 1}, column {name}", "none"
            if pa.types.is_null(values.type):
                field, received = f"column {name}", "a file without values of it"
            expected = "a value, or `missing: keep`" if can_miss else "a value"
            error = InvalidData if can_miss else _Unreadable
            raise error(file.name, field, expected=expected, received=received)
        if is_image:
            sizes = self._sizes[name]
            for row, content in enumerate(values.to_pylist()):
                sizes.add(content, Place(file.name, f"row {first_row + row + 1}, column {name}"))
            return values.cast(pa.binary())
        return convert_values(values, column, unreadable)


def _batches(file: DataFile, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of a file, with the columns that it has. Raises InvalidData."""
    with _open(file) as parquet:
        columns = [name for name in names if name in parquet.schema_arrow.names]
        if columns:
            yield from parquet.iter_batches(rows, columns=columns, use_threads=False)
            return
        for start in range(0, parquet.metadata.num_rows, rows):
            count = min(rows, parquet.metadata.num_rows - start)
            empty = pa.array([{}] * count, pa.struct([]))
            yield pa.RecordBatch.from_struct_array(empty)


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
