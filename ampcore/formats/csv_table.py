"""Reads CSV files (RFC 4180): infers types from all rows, and converts them to an Arrow table."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyarrow import csv as arrow_csv

from ampcore.errors import InvalidData
from ampcore.formats.arrow_table import TableWriter
from ampcore.formats.cache import converted
from ampcore.formats.cell_types import EXPECTED, BadCell, TypeInference, parse_cells
from ampcore.formats.column_names import check_column_names
from ampcore.formats.csv_rows import (
    MAX_LINE_BYTES,
    check_quotes,
    find_bad_row,
    place_of_row,
    read_header,
)
from ampcore.formats.files import DataFile, read_errors
from ampcore.formats.limits import Limits
from ampcore.formats.place import Place
from ampcore.formats.source import Column, Request, Split
from ampcore.formats.table_files import TableFiles, files_of_split, splits_of, table_files
from ampcore.formats.table_source import TableSource
from ampcore.spec.file_formats import CellType, CsvOptions
from ampcore.spec.text import join_names

SUFFIXES: Final = (".csv", ".tsv")
MAX_SHOWN: Final = 60
"""Characters of a bad cell in a message."""


def is_csv(name: str) -> bool:
    """Whether a file in a folder is a CSV file."""
    return name.lower().endswith(SUFFIXES)


def csv_splits(request: Request, options: CsvOptions) -> tuple[Split, ...]:
    """The splits in the files' names. Raises InvalidData."""
    return splits_of(table_files(request, is_csv))


def open_csv(request: Request, options: CsvOptions) -> TableSource:
    """The rows of a split. Raises InvalidData, which names the line of a bad row."""
    files = table_files(request, is_csv)
    chosen = files_of_split(request, files)
    every = [file for part in files.values() for file in part]
    key = ("csv", request.name, options, [file.fingerprint() for file in (*every, *chosen)])
    folder = converted(
        request.cache,
        key,
        lambda folder: _convert(folder, request, options, files, chosen),
    )
    return TableSource(request, folder)


def _convert(
    folder: Path,
    request: Request,
    options: CsvOptions,
    files: TableFiles,
    chosen: Sequence[DataFile],
) -> None:
    every = [file for part in files.values() for file in part]
    names = _names(every, options, request.limits)
    for file in every:
        check_quotes(file, options)
    # The types of all splits: a column must not be int64 for training and float64 for validation.
    dtypes = _infer(every, names, options)
    columns = {name: Column((), dtypes[name]) for name in names}
    writer = TableWriter(folder, request.name, columns, request.limits)
    for file in chosen:
        row = 0
        for batch in _batches(file, names, options):
            arrays = _parse(_Rows(file, row, batch), dtypes, options)
            writer.write(pa.record_batch(arrays, schema=writer.schema))
            row += batch.num_rows
        writer.count_rows(file.name, row)
    writer.close().write(folder)


def _names(files: Sequence[DataFile], options: CsvOptions, limits: Limits) -> list[str]:
    """The column names, which all files have. Raises InvalidData."""
    names = read_header(files[0], options)
    check_column_names(Place(files[0].name, "line 1"), names, limits)
    for file in files[1:]:
        if (other := read_header(file, options)) != names:
            raise InvalidData(
                file.name,
                "line 1",
                expected=f"the columns of {files[0].name}: {join_names(names)}",
                received=join_names(other),
            )
    for name in options.dtypes:
        if name not in names:
            raise InvalidData(
                files[0].name,
                f"dtypes, {name}",
                expected=f"one of the columns {join_names(names, 20)}",
                received="no column of this name",
            )
    return names


def _infer(
    files: Sequence[DataFile], names: Sequence[str], options: CsvOptions
) -> Mapping[str, CellType]:
    """The declared type of each column, or the one that all its cells have."""
    inferred = {
        name: TypeInference(options.decimal_point) for name in names if name not in options.dtypes
    }
    if inferred:
        for file in files:
            for batch in _batches(file, names, options):
                for name, inference in inferred.items():
                    inference.add(batch.column(name))
    return {
        name: inferred[name].dtype if name in inferred else options.dtypes[name] for name in names
    }


class _Rows(NamedTuple):
    """Rows of a file as text."""

    file: DataFile
    first: int
    batch: pa.RecordBatch

    def place(self, options: CsvOptions, row: int, column: str) -> Place:
        line = place_of_row(self.file, options, self.first + row)
        return Place(self.file.name, f"{line}, column {column}")


def _parse(rows: _Rows, dtypes: Mapping[str, CellType], options: CsvOptions) -> list[Any]:
    """The typed columns. Raises InvalidData for the first bad cell of a column."""
    arrays = []
    for name, dtype in dtypes.items():
        cells = rows.batch.column(name)
        if cells.null_count and options.missing == "error":
            row = cells.is_null().index(True).as_py()
            expected = EXPECTED[dtype] + ", or `missing: keep`"
            raise rows.place(options, row, name).invalid(expected, "no value")
        try:
            arrays.append(parse_cells(cells, dtype, options.decimal_point))
        except BadCell as bad:
            shown = bad.text if len(bad.text) <= MAX_SHOWN else f"{bad.text[:MAX_SHOWN]}…"
            place = rows.place(options, bad.row, name)
            raise place.invalid(EXPECTED[dtype], repr(shown)) from None
    return arrays


def _batches(file: DataFile, names: Sequence[str], options: CsvOptions) -> Iterator[pa.RecordBatch]:
    """The rows with all cells as text, null where they are missing. Raises InvalidData."""
    read = arrow_csv.ReadOptions(
        use_threads=False,
        block_size=MAX_LINE_BYTES,
        column_names=list(names),
        skip_rows_after_names=1 if options.header else 0,
    )
    parse = arrow_csv.ParseOptions(delimiter=options.delimiter, newlines_in_values=True)
    convert = arrow_csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=list(options.missing_values),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    with (
        _parse_errors(file, names, options),
        read_errors(file.name),
        # Given a path, Arrow would decompress files whose name ends in .gz.
        pa.OSFile(str(file.path)) as stream,
    ):
        reader: Any = arrow_csv.open_csv(stream, read, parse, convert)
        yield from reader


@contextmanager
def _parse_errors(file: DataFile, names: Sequence[str], options: CsvOptions) -> Iterator[None]:
    """Turn errors of the parser into InvalidData with the line."""
    try:
        yield
    except pa.ArrowInvalid as error:
        if "straddling" in str(error):
            raise InvalidData(
                file.name,
                None,
                expected=f"rows of at most {MAX_LINE_BYTES:,} bytes",
                received="a longer one; a quotation mark may be missing",
            ) from None
        if (bad := find_bad_row(file, options, names)) is not None:
            raise bad from None
        received = str(error).partition("\n")[0][:200]
        raise InvalidData(file.name, None, expected="rows of text", received=received) from None
