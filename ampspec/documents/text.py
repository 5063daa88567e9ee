"""Counts, lists of names and tables as text."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

MAX_NAMES: Final = 5


def plural(count: int, noun: str, plural_noun: str | None = None) -> str:
    """A count and its noun: `1 step`, `2,000 steps`; with a plural of its own, `2 entries`."""
    return f"{count:,} {noun if count == 1 else plural_noun or f'{noun}s'}"


def join_names(names: Iterable[object], max_names: int = MAX_NAMES) -> str:
    """The first `max_names` names, separated by commas, and how many more there are."""
    every = list(names)
    more = len(every) - max_names
    return ", ".join(map(str, every[:max_names])) + (f" and {more} more" if more > 0 else "")


def first_names(names: Sequence[str]) -> str:
    """The first names of a list that may be truncated, so the remaining names are not counted."""
    return ", ".join(names[:MAX_NAMES]) + (", …" if len(names) > MAX_NAMES else "")


def table_lines(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    left_aligned: Collection[str] | None = None,
) -> list[str]:
    """The rows below their headings, in columns.

    Args:
        headings: One for each column.
        rows: The cells.
        left_aligned: The headings of the columns that are no numbers; None: of the first one.
    """
    left_aligned = headings[:1] if left_aligned is None else left_aligned
    lines = [headings, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if heading in left_aligned else cell.rjust(width)
            for heading, cell, width in zip(headings, line, widths, strict=True)
        ).rstrip()
        for line in lines
    ]
