"""Parameters of lists that are sorted by creation, newest first: `limit` and `cursor`.

A cursor has the moment and the id of the last item of a page.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, TypeVar

from fastapi import Query

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Limit = Annotated[
    int | None, Query(ge=1, le=1000, description="Maximum number of items per page; all without.")
]
Cursor = Annotated[
    str | None,
    Query(pattern=r"^[0-9]{1,16}-[^\x00]{1,40}$", description="The `next_cursor` of a page."),
]
Row = TypeVar("Row")


def rows_to_read(limit: int | None) -> int | None:
    """The number of rows to read for a page: one more tells whether another page follows.

    Args:
        limit: Of the page; None for all.
    """
    return None if limit is None else limit + 1


def page_of(rows: Sequence[Row], limit: int | None) -> tuple[Sequence[Row], bool]:
    """The rows of a page, and whether another page follows.

    Args:
        rows: As many as `rows_to_read` said.
        limit: Of the page; None for all.
    """
    page = rows[:limit]
    return page, len(rows) > len(page)


def cursor_of(moment: datetime, item_id: str) -> str:
    """The cursor of the page after an item.

    Args:
        moment: By which the list is sorted.
        item_id: Tells items of the same moment apart.
    """
    return f"{(moment - EPOCH) // timedelta(microseconds=1)}-{item_id}"


def read_cursor(cursor: str | None) -> tuple[datetime, str] | None:
    """The moment and the id of the last item of the page before; None for the first page.

    Args:
        cursor: A valid `Cursor`.
    """
    if cursor is None:
        return None
    microseconds, _, item_id = cursor.partition("-")
    return EPOCH + timedelta(microseconds=int(microseconds)), item_id
