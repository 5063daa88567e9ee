"""Steps on standard output: as a table, written while they are read, or as JSON."""

import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, Protocol

import typer

from ampclient import formats
from ampcore.telemetry import StepBlock
from ampcore.telemetry.block import Column
from ampcore.telemetry.json_values import column_to_json

WIDTHS: Final = {
    "step": 8,
    "loss_scale": 10,
    "skipped": 7,
    "learning_rate": 13,
    "examples": 8,
}
"""Characters of a table's columns; together 86 for those that every job has."""
WIDTH: Final = 11
"""Of any other column: six digits and an exponent."""
DROP_ORDER: Final = ("examples", "step_time_s", "learning_rate", "grad_norm")
"""What a table leaves out where the terminal is narrow, in this order."""
PARTS: Final = ("first", "last", "min", "max")
"""Of a column over several steps; a narrow table leaves them out before that."""
MAX_NAMED_COLUMNS: Final = 5
"""Columns that are left out are counted, not named, from so many on."""
NAMES_IN_TEXT: Final = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}

Row = tuple[Any, ...]


class StepTable(Protocol):
    """Columns of values over steps or over points: a StepBlock, a StepSample."""

    @property
    def names(self) -> tuple[str, ...]:
        """Those beside `step`."""

    def __len__(self) -> int: ...

    def __contains__(self, name: object) -> bool: ...

    def __getitem__(self, name: str) -> Column: ...


def terminal_width() -> int | None:
    """The width of the terminal that standard output is; None when it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def write_steps(
    tables: Iterable[StepTable], *, as_json: bool = False, width: int | None = None
) -> None:
    """Write every table, one behind the other, with columns that fit into `width`; or as JSON."""
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
    """Those columns that fit into the width, as far as any may be left out."""
    kept = list(names)
    for name in _droppable(names):
        if width is None or sum(_width(n) + 1 for n in kept) - 1 <= width:
            break
        kept.remove(name)
    return kept


def _droppable(names: Sequence[str]) -> list[str]:
    """Those that may be left out, in this order."""
    parts = [name for part in PARTS for name in names if name.endswith(f".{part}")]
    rest = [name for name in names if name not in parts]
    return parts + [name for column in DROP_ORDER for name in rest if _column(name) == column]


def _column(name: str) -> str:
    """What a column of points tells of: `loss.mean` of `loss`."""
    return name.partition(".")[0]


def _width(name: str) -> int:
    return max(WIDTHS.get(name, WIDTH), len(name))


def _aligned(names: Sequence[str], cells: Iterable[str]) -> str:
    return " ".join(cell.rjust(_width(name)) for name, cell in zip(names, cells, strict=True))


def _short(name: str, value: Any) -> str:
    """A cell for reading: six digits, and a loss scale as the power of two that it is."""
    if not isinstance(value, float):
        return _cell(value)
    return formats.loss_scale(value) if _column(name) == "loss_scale" else f"{value:.6g}"


def _json(tables: Iterator[StepTable]) -> Iterator[str]:
    found = list(tables) or [StepBlock.concat([])]
    names = dict.fromkeys(("step", *(name for table in found for name in table.names)))
    document = {name: [v for table in found for v in _values(table, name)] for name in names}
    yield f"{json.dumps(document)}\n"


def _rows(table: StepTable, names: Iterable[str]) -> Iterator[Row]:
    """The values of each step, as JSON would hold them."""
    return zip(*(_values(table, name) for name in names), strict=True)


def _values(table: StepTable, name: str) -> list[Any]:
    """A column; NaN where the table lacks it."""
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
