"""Detects the dialect of a CSV file: delimiter, quotation marks, header and lines before it."""

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ampdata.csv.csv_encoding import decode_start
from ampdata.csv.number_format import is_number, is_value
from ampdata.files import DataFile, open_file
from ampspec.data.file_formats import CsvOptions

SAMPLE_BYTES: Final = 65_536
DELIMITERS: Final = (",", ";", "\t", "|", "::", "^", "~", "\x01", " ")
SUBSTITUTE: Final = "\x1f"
"""Python's and Arrow's readers support only delimiters of one character."""
MAX_LINES_BEFORE: Final = 20
MIN_SHARE: Final = 0.8
"""The share of rows with the same number of cells from which other rows are mistakes."""
MIN_SPACED: Final = 0.9
"""The share of cells after a space from which spaces are not part of cells."""
MIN_VALUES: Final = 0.5
"""The share of numbers from which words between spaces are cells."""
QUOTING: Final = (",", ";")
"""Delimiters that texts contain, so that quoted cells are likely."""
MIN_ALIGNED_ROWS: Final = 20
"""From this number of lines, prose does not have the same number of words in each line."""
SEPARATOR: Final = re.compile(r'\ufeff?"?sep=([^"\r\n]{1,2})"?\r?\n')
"""The first line of files for Excel."""
ESCAPED_QUOTE: Final = re.compile(r"""(\\+)(["'])""")
YEARS: Final = range(1500, 2200)
ROWS_COUNTED: Final = 4
"""The number of rows compared to detect a column of row numbers."""


@dataclass(frozen=True)
class _Split:
    """The rows of a sample, divided by one delimiter and quotation mark."""

    delimiter: str
    quote: str
    rows: Sequence[Sequence[str]]
    """Without the lines before the table."""
    columns: int
    skip_lines: int
    is_spaced: bool

    rows_before: int
    """The number of rows before the table."""
    has_name_before: bool
    """Whether the only row before the table is one word: the name of a column of texts."""

    @property
    def share(self) -> float:
        """The share of rows with equally many cells."""
        return sum(len(row) == self.columns for row in self.rows[1:]) / max(1, len(self.rows) - 1)

    @property
    def value_share(self) -> float:
        """The share of cells that are numbers or missing values."""
        cells = [cell for row in self.rows for cell in row]
        return sum(map(is_value, cells)) / max(1, len(cells))

    @property
    def rank(self) -> tuple[float, float, bool, int]:
        """The split with the highest rank is the right one; spaces may follow other delimiters."""
        table_share = len(self.rows) / (len(self.rows) + self.rows_before)
        is_mark = self.delimiter != " "
        return self.share * table_share, self.value_share, is_mark, self.columns


def complete_options(file: DataFile, options: CsvOptions) -> CsvOptions:
    """The options of a CSV file; null options are detected from its start.

    The number format stays null: all rows decide it.

    Args:
        file: The first file of the table.
        options: The known options, at least the encoding.

    Raises:
        InvalidData: The file cannot be read.
    """
    with open_file(file) as stream:
        start = stream.read(SAMPLE_BYTES)
    text = decode_start(start, options.encoding or "utf-8", is_whole=len(start) < SAMPLE_BYTES)
    return _complete(text, options, file.name, is_whole=len(start) < SAMPLE_BYTES)


def recognize_csv(text: str, *, is_whole: bool) -> CsvOptions | None:
    """The options of a text whose rows all have the same number of cells, at least two; else None.

    Args:
        text: The start of a file.
        is_whole: Whether it is the whole file.
    """
    split = _best_split(text, CsvOptions(), is_whole=is_whole)
    if split is None or split.share < 1 or len(split.rows) < 2 or split.columns < 2:
        return None
    return _options(split, CsvOptions())


def escapes_quotes(text: str, delimiter: str, quote: str) -> bool:
    r"""Whether marks in quoted cells have a backslash, as Spark and MySQL write: `"a \"b\""`."""
    if not quote or f"\\{quote}" not in text:
        return False
    mark = re.escape(delimiter)
    inside = rf"[^{quote}\r\n]*\\{quote}"
    pattern = rf"(^|{mark}){quote}({inside})+(?!{quote}|{mark}|\r|\n|$)"
    return re.search(pattern, text, re.MULTILINE) is not None


def split_cells(line: str, delimiter: str, *, escapes: bool = False) -> str:
    r"""A line as Python's and Arrow's readers need it, with delimiters of one character.

    Args:
        line: The line.
        delimiter: The delimiter of the file.
        escapes: Whether quotation marks in cells have a backslash; they are doubled instead.
    """
    if escapes:
        line = ESCAPED_QUOTE.sub(_doubled_quote, line)
    if delimiter == " ":
        return re.sub(r"[ \t]+", " ", line.rstrip("\r\n").strip(" \t")) + "\n"
    return line if len(delimiter) == 1 else line.replace(delimiter, SUBSTITUTE)


def _doubled_quote(match: re.Match[str]) -> str:
    slashes, quote = match.groups()
    return "\\" * (len(slashes) // 2) + (quote * 2 if len(slashes) % 2 else quote)


def one_character(delimiter: str) -> str:
    """The delimiter of lines from `split_cells`."""
    return delimiter if len(delimiter) == 1 else SUBSTITUTE


def _complete(text: str, options: CsvOptions, name: str, *, is_whole: bool) -> CsvOptions:
    split = _best_split(text, options, is_whole=is_whole)
    if split is None or split.share < MIN_SHARE:
        # The reader reports the bad line.
        delimiter = options.delimiter or ("\t" if name.lower().endswith(".tsv") else ",")
        fixed = options.model_copy(update={"delimiter": delimiter})
        split = _best_split(text, fixed, is_whole=is_whole)
    return options if split is None else _options(split, options)


def _options(split: _Split, options: CsvOptions) -> CsvOptions:
    seen = {
        "encoding": "utf-8",
        "delimiter": split.delimiter,
        "quote": split.quote,
        "trim": split.is_spaced,
        "skip_lines": split.skip_lines,
        "header": _has_header(split.rows, split.columns),
    }
    unknown = {name: value for name, value in seen.items() if getattr(options, name) is None}
    return options.model_copy(update=unknown)


def _best_split(text: str, options: CsvOptions, *, is_whole: bool) -> _Split | None:
    delimiters = DELIMITERS if options.delimiter is None else (options.delimiter,)
    if options.delimiter is None and (separator := SEPARATOR.match(text)):
        delimiters = (separator[1],)
        options = options.model_copy(update={"skip_lines": options.skip_lines or 1})
    splits = [
        split
        for delimiter in delimiters
        for split in _splits_by_quote(text, delimiter, options, is_whole=is_whole)
        if options.delimiter is not None
        or (split.columns > 1 and (delimiter != " " or _is_aligned(split)))
    ]
    regular = [split for split in splits if split.delimiter != " " and split.share == 1]
    if any(split.delimiter == "\t" and _has_words(split) for split in regular):
        splits = regular
    # Words between spaces are cells only if nothing else separates them.
    splits = [split for split in splits if split in regular or not regular or _has_numbers(split)]
    # Ties go to the last split: apostrophes are tried after quotation marks.
    return max(reversed(splits), key=lambda split: split.rank, default=None)


def _splits_by_quote(
    text: str, delimiter: str, options: CsvOptions, *, is_whole: bool
) -> list[_Split]:
    """The splits by one delimiter; marks that are never closed count as ordinary characters."""

    def split_with(quote: str) -> list[_Split]:
        split = _split(text, delimiter, quote, options.skip_lines, is_whole=is_whole)
        return [] if split is None else [split]

    if options.quote is not None:
        return split_with(options.quote)
    splits = split_with('"')
    if _is_quoted_by_apostrophes(text, delimiter):
        splits += split_with("'")
    if '"' in text and delimiter not in QUOTING:
        rows = max((len(split.rows) for split in splits), default=0)
        for bare in split_with(""):
            if bare.share == 1 and bare.columns > 1 and len(bare.rows) > rows:
                return [bare]
    return splits


def _split(
    text: str, delimiter: str, quote: str, skip_lines: int | None, *, is_whole: bool
) -> _Split | None:
    lines = io.StringIO(text, newline="").readlines()[skip_lines or 0 :]
    escapes = escapes_quotes(text, delimiter, quote)
    reader = csv.reader(
        (split_cells(line, delimiter, escapes=escapes) for line in lines),
        delimiter=one_character(delimiter),
        quotechar=quote or None,
        quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
        skipinitialspace=True,
    )
    rows: list[tuple[int, list[str]]] = []
    try:
        while True:
            begin = reader.line_num
            row = next(reader, None)
            if row is None:
                break
            if any(cell.strip() for cell in row) or len(row) > 1:
                rows.append((begin, row))
    except csv.Error:
        return None
    if not is_whole and len(rows) > 1:
        rows.pop()  # its end may be missing
    if not rows:
        return None
    lengths = [len(row) for _, row in rows]
    columns = Counter(lengths[1:] or lengths).most_common(1)[0][0]
    first = 0 if skip_lines is not None else _first_row([row for _, row in rows], columns)
    skipped = rows[first][0] if skip_lines is None else skip_lines
    cells = [row for _, row in rows[first:]]
    is_spaced = delimiter not in (" ", "\t") and _follow_spaces(lines, delimiter)
    is_name = first == 1 and len(rows[0][1]) == 1
    return _Split(delimiter, quote, cells, columns, skipped, is_spaced, first, is_name)


def _first_row(rows: Sequence[Sequence[str]], columns: int) -> int:
    """The first row of the table, a header or not.

    Lines of another length precede the table, unless they are its header: with a delimiter at the
    end, or without a name for the row numbers that R writes.
    """
    first = next(number for number, row in enumerate(rows) if len(row) == columns)
    if first == 0 or first > MAX_LINES_BEFORE:
        return 0
    header = rows[first - 1]
    if len(header) == columns + 1 and not header[-1].strip():
        return first - 1
    has_header = _has_header(rows[first:], columns)
    if len(header) == columns - 1 and columns > 2 and all(map(_is_name, header)) and not has_header:
        return first - 1
    # Rows with too few or too many cells are mistakes, unless they are titles above the table.
    is_title = all(sum(bool(cell.strip()) for cell in row) < 2 for row in rows[:first])
    return first if is_title or has_header else 0


def _is_name(cell: str) -> bool:
    return bool(cell.strip()) and not is_number(cell)


def _has_header(rows: Sequence[Sequence[str]], columns: int) -> bool:
    """Whether the first row names the columns: its cells differ in kind from those below."""
    names, *below = rows
    if len(names) != columns and below:
        return True
    rows = [row for row in below if len(row) == columns]
    numbers = [cell for cell in names if is_number(cell)]
    if not numbers:
        return not _are_values(names, rows)
    if not rows:
        return False
    for name, cells in zip(names, zip(*rows, strict=True), strict=True):
        values = [cell for cell in cells if is_value(cell) and cell.strip()]
        if not is_value(name) and values and len(values) == sum(bool(c.strip()) for c in cells):
            return True  # a word above numbers
    if not names[0].strip() and all(row[0].strip() for row in rows):
        return True  # a column of row numbers without a name, as pandas writes it
    if _are_consecutive([row[0] for row in (names, *rows[:ROWS_COUNTED])]):
        return False  # row numbers
    return _are_counted(numbers) and not any(
        _are_counted(below) or _are_consecutive(below)
        for row in rows
        if (below := [cell for cell in row if is_number(cell)])
    )


def _are_values(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether half of the words of the first row recur below in their columns: they are values.

    Concatenated files repeat the header, and empty names do not count.
    """
    value_rows = [row for row in rows if list(row) != list(names)]
    if len(value_rows) < MIN_SHARE * len(rows):
        value_rows = list(rows)
    columns = [set(column) for column in zip(*value_rows, strict=True)]
    pairs = [(name, column) for name, column in zip(names, columns, strict=False) if name.strip()]
    count = sum(name in column for name, column in pairs)
    return count > 0 and 2 * count >= len(pairs)


def _are_counted(cells: Sequence[str]) -> bool:
    """Whether cells are 0, 1, 2, … or ordered years: names of columns, not values."""
    numbers = _whole_numbers(cells)
    if len(numbers) < 2:
        return False
    if all(number in YEARS for number in numbers):
        return numbers in (sorted(set(numbers)), sorted(set(numbers), reverse=True))
    return numbers[0] in (0, 1) and len(numbers) > 2 and _are_consecutive(cells)


def _are_consecutive(cells: Sequence[str]) -> bool:
    """Whether at least three cells are whole numbers of which each follows the one before."""
    numbers = _whole_numbers(cells)
    return len(numbers) > 2 and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def _whole_numbers(cells: Sequence[str]) -> list[int]:
    """The cells as numbers; empty if any is not a whole number."""
    texts = [cell.strip() for cell in cells]
    return [int(text) for text in texts] if all(text.isdecimal() for text in texts) else []


def _is_aligned(split: _Split) -> bool:
    """Whether words between spaces are cells of a table, and not those of a text."""
    is_long = len(split.rows) >= MIN_ALIGNED_ROWS and split.columns > 2
    is_table = split.share == 1 and len(split.rows) > 2 and not split.has_name_before
    return is_table and (is_long or _has_numbers(split))


def _has_numbers(split: _Split) -> bool:
    return split.delimiter != " " or split.value_share >= MIN_VALUES


def _has_words(split: _Split) -> bool:
    """Whether no cell holds several numbers, as if spaces and tabs both separated cells."""
    cells = {cell for row in split.rows for cell in row}
    return not any(" " in cell and all(map(is_number, cell.split())) for cell in cells)


def _is_quoted_by_apostrophes(text: str, delimiter: str) -> bool:
    mark = re.escape(delimiter)
    return re.search(rf"(^|{mark})[ ]*'[^'\r\n]*'[ ]*($|{mark})", text, re.MULTILINE) is not None


def _follow_spaces(lines: Sequence[str], delimiter: str) -> bool:
    """Whether a space follows nearly each delimiter."""
    text = "".join(lines)
    count = text.count(delimiter)
    return count > 0 and text.count(f"{delimiter} ") >= MIN_SPACED * count
