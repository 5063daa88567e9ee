"""Reads CSV files (RFC 4180): infers types from all rows, and converts them to an Arrow table."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from ampdata.cache import converted
from ampdata.column_names import check_column_names
from ampdata.csv.cell_types import EXPECTED, BadCell, TypeInference, parse_cells
from ampdata.csv.csv_dialect import QUOTING, complete_options
from ampdata.csv.csv_encoding import find_encoding
from ampdata.csv.csv_rows import (
    MAX_LINE_BYTES,
    arrow_parsing,
    check_quotes,
    find_bad_row,
    open_for_arrow,
    place_of_row,
    read_names,
)
from ampdata.csv.number_format import DecimalFormat, number_formats
from ampdata.files import DataFile, read_errors
from ampdata.limits import Limits
from ampdata.place import Place
from ampdata.source import Column, LeftOut, ListedColumns, OpenRequest, Split, choose_columns
from ampdata.tables.arrow_table import TableWriter
from ampdata.tables.table_files import files_of_split, splits_of, table_files
from ampdata.tables.table_source import TableSource
from ampspec.data.file_formats import CellType, CsvOptions, reading_options
from ampspec.documents.text import join_names, plural
from ampspec.errors import InvalidData

SUFFIXES: Final = (".csv", ".tsv")
READING: Final = "reading.json"
"""The cache file with the detected options and `padding`."""
MAX_SHOWN: Final = 60
"""Characters of a bad cell in a message."""


def is_csv(name: str) -> bool:
    """Whether a file in a folder is a CSV file."""
    return name.lower().endswith(SUFFIXES)


def csv_splits(request: OpenRequest, options: CsvOptions) -> tuple[Split, ...]:
    """The splits in the files' names. Raises InvalidData."""
    return splits_of(table_files(request, is_csv))


def open_csv(request: OpenRequest, options: CsvOptions) -> TableSource:
    """The requested columns of a split. Raises InvalidData with the line of a bad row."""
    options = reading_options(options, CsvOptions)
    files = table_files(request, is_csv)
    chosen = files_of_split(request, files)
    every = [file for part in files.values() for file in part]
    key = (
        "csv",
        request.name,
        options,
        request.columns and sorted(request.columns),
        [file.fingerprint() for file in (*every, *chosen)],
    )
    folder = converted(
        request.cache,
        key,
        lambda folder: _convert(folder, request, options, every, chosen),
    )
    source = TableSource(request, folder)
    reading = json.loads((folder / READING).read_bytes())
    source.options = CsvOptions.model_validate(reading["options"])
    source.left_out = _left_out(reading["padding"], source.options, options)
    return source


def csv_columns(request: OpenRequest, options: CsvOptions) -> ListedColumns:
    """The columns that `open_csv` reads by default; their types come from the first rows.

    Raises InvalidData.
    """
    files = table_files(request, is_csv)
    every = [file for part in files.values() for file in part]
    table = _open_table(request, reading_options(options, CsvOptions), every)
    dtypes = table.with_types(every[:1], max_batches=1).dtypes
    # Only all rows tell whether a column has no value at all.
    padding = replace(table, used=sorted(set(table.padding) & set(table.names)))
    dtypes = {**dtypes, **(padding.with_types(every).dtypes if padding.used else {})}
    columns = {name: Column((), dtypes[name]) for name in table.names if name in dtypes}
    padding_names = [name for name in table.names if name not in dtypes]
    return ListedColumns(columns, _left_out(padding_names, table.options, options))


def _left_out(padding: Iterable[str], complete: CsvOptions, options: CsvOptions) -> list[LeftOut]:
    """Columns that consist of delimiters only, and skipped lines above the table."""
    parts = [LeftOut(name, "a column without a name and without a value") for name in padding]
    if complete.skip_lines and options.skip_lines is None:
        parts.append(LeftOut(plural(complete.skip_lines, "line"), "above the table"))
    return parts


def _open_table(request: OpenRequest, options: CsvOptions, every: Sequence[DataFile]) -> "_Table":
    """The table of all files, with complete options, without types. Raises InvalidData."""
    if options.encoding is None:
        options = options.model_copy(update={"encoding": find_encoding(every)})
    options = complete_options(every[0], options)
    names = _names(every, options, request.limits)
    for file in every:
        check_quotes(file, options)
    used = choose_columns(request.name, names, request.columns)
    padding: set[str] = set()
    if options.header and request.columns is None:  # rows may end with delimiters
        padding = {f"column_{number + 1}" for number in range(len(names))} - set(options.dtypes)
    return _Table(options, names, used, padding)


def _convert(
    folder: Path,
    request: OpenRequest,
    options: CsvOptions,
    every: Sequence[DataFile],
    chosen: Sequence[DataFile],
) -> None:
    # The types of all splits: a column must not be int64 for training and float64 for validation.
    table = _open_table(request, options, every).with_types(every)
    columns = {name: Column((), dtype) for name, dtype in table.dtypes.items()}
    writer = TableWriter(folder, request.name, columns, request.limits)
    for file in chosen:
        row = 0
        for batch in table.batches(file):
            arrays = table.parse(_Rows(file, row, batch))
            writer.write(pa.record_batch(arrays, schema=writer.schema))
            row += batch.num_rows
        writer.count_rows(file.name, row)
    writer.close().write(folder)
    padding = [name for name in table.used if name not in table.dtypes]
    reading = {"options": table.options.model_dump(mode="json"), "padding": padding}
    (folder / READING).write_text(json.dumps(reading), encoding="utf-8")


def _names(files: Sequence[DataFile], options: CsvOptions, limits: Limits) -> list[str]:
    """The column names, which all files have. Raises InvalidData."""
    line, names = read_names(files[0], options)
    check_column_names(Place(files[0].name, line), names, limits)
    for file in files[1:]:
        line, file_names = read_names(file, options)
        if file_names != names:
            raise InvalidData(
                file.name,
                line,
                expected=f"the columns of {files[0].name}: {join_names(names)}",
                received=join_names(file_names),
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


class _Rows(NamedTuple):
    """Rows of a file as text."""

    file: DataFile
    first: int
    batch: pa.RecordBatch

    def place(self, options: CsvOptions, row: int, column: str) -> Place:
        line = place_of_row(self.file, options, self.first + row)
        return Place(self.file.name, f"{line}, column {column}")


@dataclass(frozen=True)
class _Table:
    """How the columns of all files are read."""

    options: CsvOptions
    names: Sequence[str]
    used: Sequence[str]
    """The columns to read; other columns are not checked."""
    padding: Collection[str] = ()
    """Columns that are left out if all their cells are empty."""
    dtypes: Mapping[str, CellType] = field(default_factory=dict)

    def with_types(self, files: Sequence[DataFile], *, max_batches: int | None = None) -> "_Table":
        """The declared type of each column, or the type that fits all its cells.

        The number format is the one with which the most columns are numbers.

        Args:
            files: The files whose cells decide.
            max_batches: The number of batches of each file that decide; None: all.
        """
        options = self.options
        formats = number_formats(options.delimiter or ",", options.decimal_point, options.thousands)
        inferences = {
            name: TypeInference(formats, options.missing_values)
            for name in self.used
            if name not in options.dtypes
        }
        if inferences:
            for file in files:
                for batch in islice(self.batches(file), max_batches):
                    for name, inference in inferences.items():
                        inference.add(batch.column(name))
        best = max(
            formats,
            key=lambda format_: sum(column.is_number(format_) for column in inferences.values()),
        )
        dtypes = {
            name: inferences[name].dtype(best) if name in inferences else options.dtypes[name]
            for name in self.used
            if name not in self.padding or inferences[name].has_values
        }
        number_options = {"decimal_point": best.decimal_point, "thousands": best.thousands}
        return replace(self, options=options.model_copy(update=number_options), dtypes=dtypes)

    def parse(self, rows: _Rows) -> list[Any]:
        """The typed columns. Raises InvalidData for the first bad cell of a column."""
        return [self._parse(rows, name, dtype) for name, dtype in self.dtypes.items()]

    def _parse(self, rows: _Rows, name: str, dtype: CellType) -> Any:
        options, cells = self.options, rows.batch.column(name)
        number_format = DecimalFormat(options.decimal_point or ".", options.thousands or "")
        try:
            finite = name in options.dtypes
            values = parse_cells(cells, dtype, number_format, options.missing_values, finite=finite)
        except BadCell as bad:
            place = rows.place(options, bad.row, name)
            raise place.invalid(EXPECTED[dtype], _shown(bad.text)) from None
        if values.null_count and options.missing == "error":
            row = values.is_null().index(True).as_py()
            word = cells[row].as_py()
            raise rows.place(options, row, name).invalid(
                EXPECTED[dtype] + ", or `missing: keep`", _shown(word) if word else "no value"
            )
        return values

    def batches(self, file: DataFile) -> Iterator[pa.RecordBatch]:
        """The rows with the used cells as text, null where text is missing. Raises InvalidData."""
        options = self.options
        read = arrow_csv.ReadOptions(
            use_threads=False,
            block_size=MAX_LINE_BYTES,
            column_names=list(self.names),
            skip_rows_after_names=1 if options.header else 0,
        )
        delimiter, quote = arrow_parsing(file, options)
        parse = arrow_csv.ParseOptions(
            delimiter=delimiter, quote_char=quote, newlines_in_values=True
        )
        convert = arrow_csv.ConvertOptions(
            include_columns=list(self.used),
            column_types=dict.fromkeys(self.used, pa.string()),
            null_values=[""] if options.missing_values is None else list(options.missing_values),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        with (
            _parse_errors(file, self.names, options),
            read_errors(file.name),
            open_for_arrow(file, options) as stream,
        ):
            reader: Any = arrow_csv.open_csv(stream, read, parse, convert)
            row = 0
            for batch in reader:
                self._check_cells(_Rows(file, row, batch))
                row += batch.num_rows
                yield batch

    def _check_cells(self, rows: _Rows) -> None:
        """Raise InvalidData for a cell with whole rows, between two unrelated quotation marks.

        Commas, semicolons and spaces occur in texts, so they are not counted.
        """
        delimiter = self.options.delimiter or ","
        if delimiter in (*QUOTING, " ") or self.options.quote == "":
            return
        for name in self.used:
            cells = rows.batch.column(name)
            breaks = pc.count_substring(cells, "\n")
            if not pc.max(breaks).as_py():
                continue
            count = pc.count_substring(cells, delimiter)
            is_rows = pc.equal(count, pc.multiply(breaks, len(self.names) - 1))
            row = pc.index(pc.and_(is_rows, pc.greater(breaks, 0)), True).as_py()
            if row >= 0:
                raise rows.place(self.options, row, name).invalid(
                    "one cell (or `quote: ''`, if no cell is quoted)",
                    f"whole rows between quotation marks: {_shown(cells[row].as_py())}",
                )


def _shown(cell: str) -> str:
    return repr(cell if len(cell) <= MAX_SHOWN else f"{cell[:MAX_SHOWN]}…")


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
                received="a longer row; a quotation mark may be missing",
            ) from None
        if (bad := find_bad_row(file, options, names)) is not None:
            raise bad from None
        received = str(error).partition("\n")[0][:200]
        raise InvalidData(file.name, None, expected="rows of text", received=received) from None
