"""`-o table|wide|name|json|yaml`: how lists and single things are printed."""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any, Protocol, TypeVar

import typer

from ampclient.cli.output.tables import CONTROL, print_json, wide_tables


class OutputFormat(StrEnum):
    """The format of a list, or of one thing."""

    TABLE = "table"
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"


Output = Annotated[
    OutputFormat,
    typer.Option(
        "--output",
        "-o",
        help="wide: every column at its full width; name: only what other commands take; json or "
        "yaml: all fields.",
    ),
]


class Printable(Protocol):
    """Something of the API that can be printed."""

    def to_json(self) -> dict[str, Any]:
        """All fields."""


T = TypeVar("T", bound=Printable)


def print_items(
    items: Iterable[T],
    output: OutputFormat,
    table: Callable[[Sequence[T]], object],
    *,
    name: Callable[[T], object],
    empty: str = "",
) -> None:
    """Print a list.

    Args:
        items: What to print.
        output: How.
        table: Prints them as a table.
        name: What other commands take, of one of them.
        empty: Printed on standard error instead of an empty table.
    """
    rows = list(items)
    match output:
        case OutputFormat.JSON | OutputFormat.YAML:
            print_document([item.to_json() for item in rows], output)
        case OutputFormat.NAME:
            for item in rows:
                typer.echo(name(item))
        case _ if not rows and empty:
            typer.echo(empty, err=True)
        case _:
            _print_tables(output, lambda: table(rows))


def print_item(
    item: T,
    output: OutputFormat,
    text: Callable[[T], object],
    *,
    name: Callable[[T], object],
) -> None:
    """Print one thing; `text` prints its fields."""
    match output:
        case OutputFormat.JSON | OutputFormat.YAML:
            print_document(item.to_json(), output)
        case OutputFormat.NAME:
            typer.echo(name(item))
        case _:
            _print_tables(output, lambda: text(item))


def print_document(document: Any, output: OutputFormat) -> None:
    """Print all fields as JSON or YAML, without control characters."""
    if output is OutputFormat.JSON:
        print_json(document)
        return
    import yaml

    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    if CONTROL.search(text):
        text = yaml.safe_dump(document, sort_keys=False)  # escapes all but ASCII
    typer.echo(text, nl=False)


def chosen(output: OutputFormat, *, as_json: bool) -> OutputFormat:
    """The format of `-o`, or of `--json`, which is the same as `-o json`."""
    return OutputFormat.JSON if as_json else output


def _print_tables(output: OutputFormat, print_them: Callable[[], object]) -> None:
    if output is OutputFormat.WIDE:
        with wide_tables():
            print_them()
    else:
        print_them()
