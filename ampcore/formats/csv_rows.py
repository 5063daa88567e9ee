"""Finds the line of a bad row in a CSV file; slow, so only for messages."""

import csv
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

from ampcore.errors import InvalidData
from ampcore.formats.files import DataFile, open_file
from ampcore.spec.file_formats import CsvOptions

MAX_LINE_BYTES: Final = 2**20
"""Rows are read in blocks of this size, so a row cannot be longer. Arrow reads 32 blocks ahead."""

BLOCK: Final = 2**20


def read_header(file: DataFile, options: CsvOptions) -> list[str]:
    """The names of the columns: the cells of the first row, or `column_1` and so on.

    Raises InvalidData: no row, text that is not UTF-8, or a row that is too long.
    """
    try:
        _, cells = next(_rows(file, options))
    except StopIteration:
        raise InvalidData(file.name, None, expected="at least one row", received="none") from None
    except csv.Error as error:
        raise InvalidData(file.name, "line 1", expected="a row", received=str(error)) from None
    return [
        cell.strip() if options.header and cell.strip() else f"column_{number}"
        for number, cell in enumerate(cells, 1)
    ]


def place_of_row(file: DataFile, options: CsvOptions, row: int) -> str:
    """`line 812`: where a row starts; rows are counted from 0, without the header.

    `row 811` for a file that Python's csv module cannot read.
    """
    try:
        for number, (line, _) in enumerate(_rows(file, options), -1 if options.header else 0):
            if number == row:
                return f"line {line}"
    except csv.Error:
        pass
    return f"row {row + 1}"


def find_bad_row(file: DataFile, options: CsvOptions, names: Sequence[str]) -> InvalidData | None:
    """The error for the first row with another number of cells, or that is not UTF-8."""
    try:
        for line, cells in _rows(file, options):
            if len(cells) != len(names):
                return InvalidData(
                    file.name,
                    f"line {line}",
                    expected=f"{len(names)} cells, one for each column",
                    received=str(len(cells)),
                )
    except csv.Error:
        return None
    except InvalidData as error:
        return error
    return None


def check_quotes(file: DataFile, options: CsvOptions) -> None:
    """Raises InvalidData for a cell that is not closed: it would contain the rest of the file."""
    count = 0
    with open_file(file) as stream:
        while block := stream.read(BLOCK):
            count += block.count(b'"')
    if count % 2 == 0:
        return
    start = 0
    try:
        for line, _ in _rows(file, options, strict=True):
            start = line
    except csv.Error as error:
        # A mark after a cell, or inside one without marks, is no reason to reject the file.
        if "unexpected end" in str(error) or "field limit" in str(error):
            raise InvalidData(
                file.name,
                f"row after line {start}",
                expected="a closing quotation mark",
                received="the end of the file, or a very long cell",
            ) from None


def _rows(
    file: DataFile, options: CsvOptions, *, strict: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """The line on which each row starts, and its cells; empty lines are left out."""
    with open_file(file) as stream:
        reader = csv.reader(_lines(stream, file), delimiter=options.delimiter, strict=strict)
        while True:
            start = reader.line_num + 1
            cells = next(reader, None)
            if cells is None:
                return
            if cells:
                yield start, cells


def _lines(stream: BinaryIO, file: DataFile) -> Iterator[str]:
    """The lines of the file as text. Raises InvalidData."""
    number = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise InvalidData(
                file.name,
                f"line {number}",
                expected=f"at most {MAX_LINE_BYTES:,} bytes",
                received="more",
            )
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InvalidData(
                file.name,
                f"line {number}",
                expected="text in UTF-8",
                received=f"byte 0x{line[error.start]:02x}",
            ) from None
