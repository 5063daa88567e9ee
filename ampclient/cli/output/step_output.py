"""Prints steps as a table, while they are read, or as JSON."""

import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, Protocol

import typer

from ampclient._display import formats
from ampspec.telemetry import StepBlock
from ampspec.telemetry.json_values import column_to_json
from ampspec.telemetry.steps.block import Column

WIDTHS: Final = {
    "step": 8,
    "loss_scale": 10,
    "skipped": 7,
    "learning_rate": 13,
    "examples": 8,
}
"""Widths of columns in characters; the columns that every job has take 86 in total."""
WIDTH: Final = 11
"""Width of any other column: six digits and an exponent."""
DROP_ORDER: Final = ("examples", "step_time_s", "learning_rate", "grad_norm")
"""Columns that a table drops on a narrow terminal, in this order."""
PARTS: Final = ("first", "last", "min", "max")
"""Statistics of downsampled columns that a narrow table drops before whole columns."""
MAX_NAMED_COLUMNS: Final = 5
"""From this number on, hidden columns are counted instead of named."""
NAMES_IN_TEXT: Final = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}

Row = tuple[Any, ...]


class StepTable(Protocol):
    """Columns over steps or points: a StepBlock or a StepSample."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns other than `step`."""

    def __len__(self) -> int: ...

    def __contains__(self, name: object) -> bool: ...

    def __getitem__(self, name: str) -> Column: ...


def terminal_width() -> int | None:
    """The width of standard output; None if it is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def write_steps(
    tables: Iterable[StepTable], *, as_json: bool = False, width: int | None = None
) -> None:
    """Write all tables in sequence, with the columns that fit into `width`, or as one JSON."""
    nonempty = filter(len, tables)
    for piece in _json(nonempty) if as_json else _table(nonempty, width=width):
        typer.echo(piece, nl=False)


def _table(tables: Iterator[StepTable], *, width: int | None) -> Iterator[str]:
    first = next(tables, None)
    if first is None:
        return
    names = _fitting(("step", *first.names), width)
    yield f"{_aligned(names, names)}\n"
    for table in chain([first], tables):
        rows = (map(_short, names, row) for row in _rows(table, names))
        yield "".join(f"{_aligned(names, row)}\n" for row in rows)
    if hidden := [name for name in first.names if name not in names]:
        what = (
            ", ".join(hidden) if len(hidden) < MAX_NAMED_COLUMNS else f"{len(hidden)} more columns"
        )
        note = f"Hidden (terminal too narrow): {what}. Use --columns or --format csv to see them."
        typer.echo(note, err=True)


def _fitting(names: Sequence[str], width: int | None) -> list[str]:
    """The columns that fit into the width; those that may not be dropped stay."""
    kept = list(names)
    for name in _droppable(names):
        if width is None or sum(_width(n) + 1 for n in kept) - 1 <= width:
            break
        kept.remove(name)
    return kept


def _droppable(names: Sequence[str]) -> list[str]:
    """The columns that may be dropped, in this order."""
    parts = [name for part in PARTS for name in names if name.endswith(f".{part}")]
    whole = [name for name in names if name not in parts]
    return parts + [name for column in DROP_ORDER for name in whole if _column(name) == column]


def _column(name: str) -> str:
    """The column that a statistic belongs to: `loss` for `loss.mean`."""
    return name.partition(".")[0]


def _width(name: str) -> int:
    return max(WIDTHS.get(name, WIDTH), len(name))


def _aligned(names: Sequence[str], cells: Iterable[str]) -> str:
    return " ".join(cell.rjust(_width(name)) for name, cell in zip(names, cells, strict=True))


def _short(name: str, value: Any) -> str:
    """A cell with six significant digits; a loss scale as a power of two."""
    if not isinstance(value, float):
        return _cell(value)
    return formats.loss_scale(value) if _column(name) == "loss_scale" else f"{value:.6g}"


def _json(tables: Iterator[StepTable]) -> Iterator[str]:
    blocks = list(tables) or [StepBlock.concat([])]
    names = dict.fromkeys(("step", *(name for table in blocks for name in table.names)))
    document = {name: [v for table in blocks for v in _values(table, name)] for name in names}
    yield f"{json.dumps(document)}\n"


def _rows(table: StepTable, names: Iterable[str]) -> Iterator[Row]:
    """The values of each step, as in JSON."""
    return zip(*(_values(table, name) for name in names), strict=True)


def _values(table: StepTable, name: str) -> list[Any]:
    """The values of a column; NaN if the table does not have it."""
    return column_to_json(table[name]) if name in table else ["NaN"] * len(table)


def _cell(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return NAMES_IN_TEXT[value]
        case float():
            return f"{value:.9g}"  # as many digits as a float32 has
    return str(value)
