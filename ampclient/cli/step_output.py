"""Steps on standard output, written as they are read: a table, CSV, or JSON."""

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final

import typer

from ampclient import formats
from ampclient.cli.connect import StepFormat
from ampcore.series import StepBlock
from ampcore.series.jsonable import column_to_json

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
GIVE_WAY: Final = ("examples", "step_time_s", "learning_rate", "grad_norm")
"""What a table leaves out where the terminal is narrow, in this order."""
NAMES_IN_TEXT: Final = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}

Row = tuple[Any, ...]
Writer = Callable[[Iterator[StepBlock]], Iterator[str]]


def terminal_width() -> int | None:
    """The width of the terminal that standard output is; None when it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def write_steps(
    blocks: Iterable[StepBlock], format_: StepFormat, *, width: int | None = None
) -> None:
    """Write every block, in order; a table with the columns that fit into `width`."""
    writers: dict[StepFormat, Writer] = {
        StepFormat.TABLE: partial(_table, width=width),
        StepFormat.CSV: _csv,
        StepFormat.NDJSON: _ndjson,
        StepFormat.JSON: _json,
    }
    for piece in writers[format_](iter(blocks)):
        typer.echo(piece, nl=False)


def _table(blocks: Iterator[StepBlock], *, width: int | None) -> Iterator[str]:
    first = next(blocks, None)
    if first is None:
        return
    names = _fitting(("step", *first.names), width)
    yield f"{_aligned(names, names)}\n"
    for block in chain([first], blocks):
        rows = (map(_short, names, row) for row in _rows(block, names))
        yield "".join(f"{_aligned(names, row)}\n" for row in rows)
    if hidden := [name for name in first.names if name not in names]:
        note = f"Too narrow for {', '.join(hidden)}; --columns or --format csv shows them."
        typer.echo(note, err=True)


def _fitting(names: Sequence[str], width: int | None) -> list[str]:
    """Those columns that fit into the width, as far as any may be left out."""
    kept = list(names)
    for name in GIVE_WAY:
        if width is None or sum(_width(n) + 1 for n in kept) - 1 <= width:
            break
        if name in kept:
            kept.remove(name)
    return kept


def _width(name: str) -> int:
    return max(WIDTHS.get(name, WIDTH), len(name))


def _aligned(names: Sequence[str], cells: Iterable[str]) -> str:
    return " ".join(cell.rjust(_width(name)) for name, cell in zip(names, cells, strict=True))


def _short(name: str, value: Any) -> str:
    """A cell for reading: six digits, and a loss scale as the power of two that it is."""
    if not isinstance(value, float):
        return _cell(value)
    return formats.loss_scale(value) if name == "loss_scale" else f"{value:.6g}"


def _csv(blocks: Iterator[StepBlock]) -> Iterator[str]:
    first = next(blocks, None)
    if first is None:
        return
    names = ("step", *first.names)
    # No cell needs quotes: they are numbers and the names of columns.
    yield f"{','.join(names)}\n"
    for block in chain([first], blocks):
        rows = (",".join(map(_cell, row)) for row in _rows(block, names))
        yield "".join(f"{row}\n" for row in rows)


def _ndjson(blocks: Iterator[StepBlock]) -> Iterator[str]:
    for block in blocks:
        names = ("step", *block.names)
        documents = (dict(zip(names, row, strict=True)) for row in _rows(block, names))
        yield "".join(f"{json.dumps(document)}\n" for document in documents)


def _json(blocks: Iterator[StepBlock]) -> Iterator[str]:
    block = StepBlock.concat(list(blocks))
    document = {name: column_to_json(block[name]) for name in ("step", *block.names)}
    yield f"{json.dumps(document)}\n"


def _rows(block: StepBlock, names: Iterable[str]) -> Iterator[Row]:
    """The values of each step, as JSON would hold them."""
    return zip(*(column_to_json(block[name]) for name in names), strict=True)


def _cell(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return NAMES_IN_TEXT[value]
        case float():
            return f"{value:.9g}"  # as many digits as a float32 has
    return str(value)
