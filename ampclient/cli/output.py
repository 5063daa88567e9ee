"""What every command writes: tables, facts and JSON on standard output."""

import codecs
import json
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import typer

from ampclient import formats

if TYPE_CHECKING:
    from ampclient.terminal_table import Row, TableColumn


CONTROL: Final = re.compile(
    "[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
"""DEL, the C1 controls, ends of lines, marks without a width, and what turns the direction of text.

JSON escapes the C0 controls by itself.
"""


ENCODING_ERRORS: Final = "ampctl"
ASCII_SIGNS: Final = dict(zip("–—…×·’━╸", "--~x*'=-", strict=True))


def replace_unencodable_characters() -> None:
    """Let standard output and error replace what they cannot encode, instead of failing."""
    codecs.register_error(ENCODING_ERRORS, _ascii_signs)
    for stream in (sys.stdout, sys.stderr):
        if "utf" not in (getattr(stream, "encoding", None) or "utf").lower():
            stream.reconfigure(errors=ENCODING_ERRORS)  # type: ignore[union-attr]


def print_json(document: Any) -> None:
    """The document, indented."""
    typer.echo(json_text(document, indent=2))


def json_text(document: Any, *, indent: int | None = None) -> str:
    """The document as JSON that steers no terminal.

    Letters of all languages stay; what JSON lets stand and a terminal obeys becomes an escape,
    which stands for the same text.
    """
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def print_fields(facts: Sequence[tuple[str, str]]) -> None:
    """A line for each fact; the values stand below each other."""
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        typer.echo(f"{name:<{width}}  {formats.printable(value)}")


def print_table(columns: Sequence["TableColumn"], rows: Sequence["Row"]) -> None:
    """The table, as wide as the terminal; in a pipe as wide as it needs."""
    from rich.console import Console

    from ampclient.terminal_table import fitted_table

    console = Console()
    if console.is_terminal:
        console.print(fitted_table(columns, rows, console.width))
        return
    # A pipe has no width: whole words and nothing behind them, for grep and awk.
    console.width = 10_000
    with console.capture() as table:
        console.print(fitted_table(columns, rows, console.width))
    for line in table.get().splitlines():
        typer.echo(line.rstrip())


def fields_text(data: Mapping[str, Any]) -> str:
    """Facts of any kind in one line: name=value."""
    return " ".join(f"{name}={_fact(value)}" for name, value in data.items())


def table_width() -> int | None:
    """The width that a table may have; None in a pipe."""
    from rich.console import Console

    console = Console()
    return console.width if console.is_terminal else None


def ago(moment: datetime) -> str:
    """How long ago a time was."""
    return formats.ago((datetime.now(UTC) - moment).total_seconds())


def duration_between(begun: datetime | None, ended: datetime | None) -> str:
    """How long something took, or has taken so far."""
    if begun is None:
        return formats.UNKNOWN
    return formats.duration(((ended or datetime.now(UTC)) - begun).total_seconds())


def printable_in(value: Any) -> Any:
    """The same with every text in it fit for a terminal."""
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
