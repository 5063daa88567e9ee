"""Tables fitted to a terminal's width: on a narrow one, whole columns are dropped in order."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

Cell = str | Text | ProgressBar
Row = Sequence[Cell]


@dataclass(frozen=True)
class TableColumn:
    """A column, and how it behaves when there is too little room."""

    header: str
    align_right: bool = False
    min_width: int | None = None
    """Cells may be shortened to this many characters; None: they are never shortened."""
    wraps: bool = False
    """Long cells wrap instead of ending with an ellipsis."""
    drop_order: int = 0
    """The column with 1 is dropped first, then that with 2; columns with 0 always stay."""


def fitted_table(
    columns: Sequence[TableColumn],
    rows: Sequence[Row],
    width: int,
    *,
    gap: int = 2,
    header_style: str = "bold",
) -> Table:
    """The table with as many columns as fit into `width`, `gap` characters apart."""
    kept = _columns_that_fit(columns, rows, width, gap)
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style=header_style)
    for column in (columns[index] for index in kept):
        table.add_column(
            column.header,
            justify="right" if column.align_right else "left",
            no_wrap=column.min_width is None,
            overflow="fold" if column.wraps else "ellipsis",
        )
    for row in rows:
        table.add_row(*(_renderable(row[index], columns[index]) for index in kept))
    return table


def _columns_that_fit(
    columns: Sequence[TableColumn], rows: Sequence[Row], width: int, gap: int
) -> list[int]:
    """The indices of the columns that stay."""
    min_widths = [_min_width(column, [row[i] for row in rows]) for i, column in enumerate(columns)]
    kept = list(range(len(columns)))
    ranked = sorted((column.drop_order, i) for i, column in enumerate(columns) if column.drop_order)
    for _, index in ranked:
        if sum(min_widths[i] + gap for i in kept) - gap <= width:
            break
        kept.remove(index)
    return kept


def _min_width(column: TableColumn, cells: Sequence[Cell]) -> int:
    """The minimum width of the column."""
    natural = max(map(_width, [column.header, *cells]))
    return natural if column.min_width is None else min(natural, column.min_width)


def _width(cell: Cell) -> int:
    if isinstance(cell, ProgressBar):
        return cell.width or 0
    return Text(cell).cell_len if isinstance(cell, str) else cell.cell_len


def _renderable(cell: Cell, column: TableColumn) -> Text | ProgressBar:
    # Text, not str: a name such as "[red]" must not be parsed as markup.
    return Text(cell, no_wrap=not column.wraps) if isinstance(cell, str) else cell
