"""HTML tables for notebooks; all text is escaped, because some of it is untrusted."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import ClassVar, Protocol, runtime_checkable


@runtime_checkable
class TableRow(Protocol):
    """An object that can be a row of a table."""

    _html_head_: ClassVar[Sequence[str]]
    """The names of the columns."""

    def _html_row_(self) -> Sequence[object]:
        """The values."""


def table(head: Iterable[object], rows: Iterable[Iterable[object]], note: str = "") -> str:
    """A table with an optional note below it."""
    body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in rows)
    below = f"<p>{escape(note)}</p>" if note else ""
    return (
        f"<table><thead><tr>{_cells('th', head)}</tr></thead><tbody>{body}</tbody></table>{below}"
    )


def fields_table(pairs: Iterable[tuple[str, object]]) -> str:
    """A table of names and values; None values are left out."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th>{_cells("td", [value])}</tr>'
        for name, value in pairs
        if value is not None
    )
    return f"<table><tbody>{rows}</tbody></table>"


def items_table(items: Sequence[object], note: str = "") -> str:
    """A table of items of one kind, with a row per item."""
    if not items:
        return "<p>none</p>"
    first = items[0]
    if not isinstance(first, TableRow):
        return table(["", ""], ([index, item] for index, item in enumerate(items)), note)
    rows = [item._html_row_() for item in items if isinstance(item, TableRow)]
    return table(first._html_head_, rows, note)


def _cells(tag: str, values: Iterable[object]) -> str:
    style = ' style="text-align:left"'
    return "".join(f"<{tag}{style}>{escape(_text(value))}</{tag}>" for value in values)


def _text(value: object) -> str:
    return "" if value is None else str(value)
