"""Steps on standard output, written as they are read: a table, CSV, or JSON."""

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

import typer

from ampclient.cli.connect import StepFormat
from ampcore.series import StepBlock
from ampcore.series.jsonable import column_to_json

WIDTH: Final = 14
NAMES_IN_TEXT: Final = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}

Row = tuple[Any, ...]


def write_steps(blocks: Iterable[StepBlock], format_: StepFormat) -> None:
    """Write every block, in order."""
    writers = {
        StepFormat.TABLE: _table,
        StepFormat.CSV: _csv,
        StepFormat.NDJSON: _ndjson,
        StepFormat.JSON: _json,
    }
    for piece in writers[format_](iter(blocks)):
        typer.echo(piece, nl=False)


def _table(blocks: Iterator[StepBlock]) -> Iterator[str]:
    yield from _text(blocks, lambda cells: " ".join(cell.rjust(WIDTH) for cell in cells))


def _csv(blocks: Iterator[StepBlock]) -> Iterator[str]:
    # No cell needs quotes: they are numbers and the names of columns.
    yield from _text(blocks, ",".join)


def _text(blocks: Iterator[StepBlock], joined: Any) -> Iterator[str]:
    first = next(blocks, None)
    if first is None:
        return
    names = ("step", *first.names)
    yield f"{joined(names)}\n"
    for block in chain([first], blocks):
        rows = (joined([_cell(value) for value in row]) for row in _rows(block, names))
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
