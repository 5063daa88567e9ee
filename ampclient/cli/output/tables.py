"""Prints tables, fields and JSON on standard output, for every command."""

import codecs
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import typer

from ampclient._display import formats

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ampclient._display.terminal_table import Row, TableColumn


CONTROL: Final = re.compile(
    "[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
"""DEL, C1 controls, line separators, zero-width characters and bidirectional controls.

JSON already escapes the C0 controls.
"""


_is_wide: ContextVar[bool] = ContextVar("_is_wide", default=False)

ENCODING_ERRORS: Final = "ampctl"
ASCII_SIGNS: Final = dict(zip("–—…×·’━╸", "--~x*'=-", strict=True))


def replace_unencodable_characters() -> None:
    """Make standard output and error replace characters that they cannot encode."""
    codecs.register_error(ENCODING_ERRORS, _ascii_signs)
    for stream in (sys.stdout, sys.stderr):
        if "utf" not in (getattr(stream, "encoding", None) or "utf").lower():
            stream.reconfigure(errors=ENCODING_ERRORS)  # type: ignore[union-attr]


def print_json(document: Any) -> None:
    """Print the document, indented."""
    typer.echo(json_text(document, indent=2))


def json_text(document: Any, *, indent: int | None = None) -> str:
    """The document as JSON without control characters.

    Letters of all languages stay. Characters that could control a terminal become JSON escapes.
    """
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    return CONTROL.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)


def print_fields(facts: Sequence[tuple[str, str]]) -> None:
    """Print a line per field, with the values aligned."""
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        typer.echo(f"{name:<{width}}  {formats.printable(value)}")


@contextmanager
def wide_tables() -> Iterator[None]:
    """Inside the context, tables have every column at its full width, also on a terminal."""
    token = _is_wide.set(True)
    try:
        yield
    finally:
        _is_wide.reset(token)


def print_table(columns: Sequence["TableColumn"], rows: Sequence["Row"]) -> None:
    """Print the table, fitted to the terminal; in a pipe, at its full width."""
    from ampclient._display.terminal_table import fitted_table

    print_fitted(lambda width: fitted_table(columns, rows, width))


def print_fitted(draw: "Callable[[int], RenderableType]") -> None:
    """Print what `draw` returns for a number of columns: those of the terminal, or very many."""
    from rich.console import Console

    console = Console()
    if console.is_terminal and not _is_wide.get():
        console.print(draw(console.width))
        return
    # A pipe has no width: print full cells without trailing spaces, for grep and awk.
    console.width = 10_000
    with console.capture() as table:
        console.print(draw(console.width))
    for line in table.get().splitlines():
        typer.echo(line.rstrip())


def fields_text(data: Mapping[str, Any]) -> str:
    """Any mapping as one line of name=value pairs."""
    return " ".join(f"{name}={_fact(value)}" for name, value in data.items())


def table_width() -> int | None:
    """The maximum width of a table; None in a pipe, and for `wide_tables`."""
    from rich.console import Console

    console = Console()
    return console.width if console.is_terminal and not _is_wide.get() else None


def ago(moment: datetime) -> str:
    """The time since a moment, for example "5 min ago"."""
    return formats.ago((datetime.now(UTC) - moment).total_seconds())


def duration_between(begun: datetime | None, ended: datetime | None) -> str:
    """The duration, up to now if it has not ended."""
    if begun is None:
        return formats.UNKNOWN
    return formats.duration(((ended or datetime.now(UTC)) - begun).total_seconds())


def printable_in(value: Any) -> Any:
    """A JSON value with all its strings made printable."""
    match value:
        case str():
            return formats.printable(value)
        case dict():
            return {printable_in(name): printable_in(item) for name, item in value.items()}
        case list():
            return [printable_in(item) for item in value]
    return value


def _fact(value: Any) -> str:
    match value:
        case float():
            return f"{value:.10g}"
        case str():
            return value
    return json.dumps(value, default=str)


def _ascii_signs(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    unknown = error.object[error.start : error.end]
    return "".join(ASCII_SIGNS.get(character, "?") for character in unknown), error.end
