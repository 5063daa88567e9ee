"""Reads a CSV file row by row as Python lists, or rewrites it for Arrow's reader.

Python lists are slow: they serve headers, the line numbers of bad rows, and files with delimiters
and quotation marks that Arrow does not support.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO, Final, Literal

import pyarrow as pa

from ampdata.csv.csv_dialect import escapes_quotes, one_character, split_cells
from ampdata.csv.csv_encoding import codec_of, decode_start
from ampdata.files import DataFile, open_file
from ampspec.data.file_formats import CsvOptions
from ampspec.errors import InvalidData

MAX_LINE_BYTES: Final = 2**20
"""Rows are read in blocks of this size, so a row cannot be longer. Arrow reads 32 blocks ahead."""

BLOCK: Final = 2**20
START_BYTES: Final = 65_536
BYTE_ORDER_MARK: Final = "\ufeff"
MAX_ROWS_COMPARED: Final = 100
"""The rows compared to tell whether a delimiter at the end of rows starts a cell."""


def read_names(file: DataFile, options: CsvOptions) -> tuple[str, list[str]]:
    """The place of the first row, and the column names: its cells, or `column_1` and so on.

    A header may have a trailing delimiter that rows lack, lack one that rows have, or lack a name
    for the column of row numbers.

    Raises InvalidData: no row, text in another encoding, or a row that is too long.
    """
    first: list[tuple[int, list[str]]] = []
    try:
        for row in _rows(file, options):
            first.append(row)
            if len(first) > MAX_ROWS_COMPARED or not options.header:
                break
    except (csv.Error, InvalidData) as error:
        # An error in a later row is raised again when rows are read.
        if not first:
            if isinstance(error, InvalidData):
                raise
            raise InvalidData(file.name, "line 1", expected="a row", received=str(error)) from None
    if not first:
        raise InvalidData(file.name, None, expected="at least one row", received="none")
    line, cells = first[0]
    if options.header:
        rows = [row for _, row in first[1:]] or [cells]
        columns = len(rows[0])
        if len(cells) == columns + 1 and not cells[-1].strip():
            cells = cells[:-1]
        elif len(cells) == columns - 1 and len(cells) > 1:
            ends_empty = not any(row[-1].strip() for row in rows if len(row) == columns)
            cells = [*cells, ""] if ends_empty else ["", *cells]
    names = [
        cell.strip() if options.header and cell.strip() else f"column_{number}"
        for number, cell in enumerate(cells, 1)
    ]
    return f"line {line}", names


def place_of_row(file: DataFile, options: CsvOptions, row: int) -> str:
    """The place of a row as `line 812`; rows are counted from 0, without the header.

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
    """The error for the first row with another number of cells, or in another encoding."""
    rows = _rows(file, options)
    try:
        if options.header:
            next(rows, None)
        for line, cells in rows:
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
    """Raise InvalidData for an unclosed cell, which would contain the rest of the file."""
    if options.quote == "":
        return
    quote, count = (options.quote or '"').encode(), 0
    with open_file(file) as stream:
        while block := stream.read(BLOCK):
            count += block.count(quote)
    if count % 2 == 0:
        return
    start = options.skip_lines or 0
    try:
        for line, _ in _rows(file, options, strict=True):
            start = line
    except csv.Error as error:
        # A mark after a cell, or inside an unquoted cell, is accepted.
        if "unexpected end" in str(error) or "field limit" in str(error):
            raise InvalidData(
                file.name,
                f"row after line {start}",
                expected="a closing quotation mark (or `quote: ''`, if no cell is quoted)",
                received="the end of the file, or a very long cell",
            ) from None


@contextmanager
def open_for_arrow(file: DataFile, options: CsvOptions) -> Iterator[pa.NativeFile]:
    """The file from its first row, in UTF-8, with delimiters of one character.

    Raises InvalidData, also while the stream is read.
    """
    if not _needs_rewriting(file, options):
        # With a path, Arrow would decompress files whose name ends in .gz.
        with open_file(file) as lines, pa.OSFile(str(file.path)) as stream:
            stream.seek(_skipped_bytes(lines, options.skip_lines or 0))
            yield stream
        return
    parts = (line.encode() for line in _rewritten(_rows(file, options)))
    with pa.PythonFile(io.BufferedReader(_Joined(parts)), "r") as stream:
        yield stream


def arrow_parsing(file: DataFile, options: CsvOptions) -> tuple[str, str | Literal[False]]:
    """The delimiter and the quotation mark of the stream from `open_for_arrow`."""
    if _needs_rewriting(file, options):
        return ",", '"'
    return options.delimiter or ",", '"' if options.quote is None else options.quote or False


def _escapes_quotes(file: DataFile, options: CsvOptions) -> bool:
    """Whether quoted cells at the start of the file escape quotation marks with backslashes."""
    with open_file(file) as stream:
        start = stream.read(START_BYTES)
    text = decode_start(start, options.encoding or "utf-8", is_whole=len(start) < START_BYTES)
    quote = '"' if options.quote is None else options.quote
    return escapes_quotes(text, options.delimiter or ",", quote)


def _needs_rewriting(file: DataFile, options: CsvOptions) -> bool:
    return (
        options.encoding not in (None, "utf-8")
        or options.delimiter == " "
        or len(options.delimiter or ",") > 1
        or bool(options.trim)
        or options.quote == "'"
        or _escapes_quotes(file, options)
    )


def _skipped_bytes(stream: BinaryIO, lines: int) -> int:
    """The size of a byte order mark, of the first lines, and of empty ones after them.

    Arrow would skip an empty line instead of the header.
    """
    mark = BYTE_ORDER_MARK.encode()
    size = len(mark) if stream.read(len(mark)) == mark else 0
    stream.seek(size)
    size += sum(len(stream.readline()) for _ in range(lines))
    while (start := stream.readline(2)) in (b"\n", b"\r\n"):
        size += len(start)
    return size


def _rewritten(rows: Iterable[tuple[int, list[str]]]) -> Iterator[str]:
    """The rows with commas between cells; empty cells stay without quotation marks."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for _, cells in rows:
        writer.writerow(cells)
        yield text.getvalue()
        text.seek(0)
        text.truncate()


class _Joined(io.RawIOBase):
    """A stream over parts that are produced while it is read."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts, self._remainder = parts, b""

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill the buffer as far as the next parts go."""
        parts, size = [self._remainder], len(self._remainder)
        while size < len(buffer) and (part := next(self._parts, b"")):
            parts.append(part)
            size += len(part)
        joined = b"".join(parts)
        count = min(len(buffer), size)
        buffer[:count], self._remainder = joined[:count], joined[count:]
        return count


def _rows(
    file: DataFile, options: CsvOptions, *, strict: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """The first line of each row, and its cells; empty lines are skipped."""
    delimiter, skipped = options.delimiter or ",", options.skip_lines or 0
    quote = '"' if options.quote is None else options.quote
    with open_file(file) as stream:
        lines = _lines(stream, file, options)
        for _ in range(skipped):
            next(lines, None)
        escapes = _escapes_quotes(file, options)
        reader = csv.reader(
            (split_cells(line, delimiter, escapes=escapes) for line in lines),
            delimiter=one_character(delimiter),
            quotechar=quote or None,
            quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
            skipinitialspace=bool(options.trim),
            strict=strict,
        )
        while True:
            start = skipped + reader.line_num + 1
            cells = next(reader, None)
            if cells is None:
                return
            if options.trim:
                cells = [cell.strip() for cell in cells]
            if cells and (delimiter != " " or cells != [""]):
                yield start, cells


def _lines(stream: BinaryIO, file: DataFile, options: CsvOptions) -> Iterator[str]:
    """The lines of the file as text. Raises InvalidData."""
    encoding = options.encoding or "utf-8"
    if encoding != "utf-8" or _ends_lines_with_returns(stream):
        codec = codec_of(encoding, stream.read(2))
        stream.seek(0)
        yield from _decoded_lines(stream, file, codec)
        return
    number = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        _check_length(len(line), file, number)
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InvalidData(
                file.name,
                f"line {number}",
                expected="text in UTF-8, or the option `encoding`",
                received=f"byte 0x{line[error.start]:02x}",
            ) from None


def _ends_lines_with_returns(stream: BinaryIO) -> bool:
    """Whether lines end with carriage returns, as in Excel's CSV (Macintosh)."""
    start = stream.read(START_BYTES)
    stream.seek(0)
    return b"\r" in start and b"\n" not in start


def _decoded_lines(stream: BinaryIO, file: DataFile, encoding: str) -> Iterator[str]:
    text, number = io.TextIOWrapper(stream, encoding, newline=""), 0
    try:
        while line := text.readline(MAX_LINE_BYTES + 1):
            number += 1
            _check_length(len(line), file, number)
            yield line
    except UnicodeDecodeError as error:
        raise InvalidData(
            file.name, f"after line {number}", expected=f"text in {encoding}", received=error.reason
        ) from None
    finally:
        with suppress(ValueError):  # the file is closed already
            text.detach()


def _check_length(length: int, file: DataFile, number: int) -> None:
    if length > MAX_LINE_BYTES:
        raise InvalidData(
            file.name,
            f"line {number}",
            expected=f"at most {MAX_LINE_BYTES:,} bytes",
            received="more",
        )
