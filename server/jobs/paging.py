"""Cursors: the place in a list where the next page goes on, opaque to clients.

A cursor belongs to one list: another order or other filters do not take it.
"""

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from ampcore.spec import Problem
from ampcore.spec.problems import shown
from server.deps import JOB_ID
from server.http.parameters import RequestInvalid, is_storable
from store.search import CHANGED_AT, Place, Search, Sort


def cursor_of(place: Place, search: Search, sort: Sort) -> str:
    """The cursor that leads on behind a place."""
    value, began = (
        each.isoformat() if isinstance(each, datetime) else each
        for each in (place.value, place.began)
    )
    parts = [_mark(search, sort), value, place.job_id, began, place.is_among_moved]
    text = json.dumps(parts, ensure_ascii=False)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_cursor(cursor: str, search: Search, sort: Sort) -> Place:
    """The place in a cursor. Raises RequestInvalid, also for the cursor of another list."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        document = json.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
        mark, value, job_id, began, is_among_moved = document
        if mark != _mark(search, sort):
            raise _invalid(cursor, "the cursor of a list with the same sort and the same filters")
        field = "created_at" if is_among_moved is True else sort.field
        moves = sort.field in CHANGED_AT
        return Place(
            READ[field](value),
            _id(job_id),
            _moment(began) if moves else None,
            moves and is_among_moved is True,
        )
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise _invalid(cursor, "the next_cursor of an earlier answer") from None


def _mark(search: Search, sort: Sort) -> str:
    """What tells lists apart."""
    return sha256(f"{sort} {search}".encode("utf-8", "backslashreplace")).hexdigest()[:16]


def _moment(value: Any) -> datetime:
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError(value)
    return moment.astimezone(UTC)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not is_storable(value):
        raise ValueError(value)
    return value


def _priority(value: Any) -> int:
    if value not in range(10) or isinstance(value, bool):
        raise ValueError(value)
    return int(value)


def _id(value: Any) -> str:
    if not JOB_ID.fullmatch(value):
        raise ValueError(value)
    return str(value)


READ: Final[dict[str, Callable[[Any], Any]]] = {
    "created_at": _moment,
    "updated_at": _moment,
    "name": _text,
    "priority": _priority,
}
"""How to read the value that a list is sorted by."""


def _invalid(cursor: str, expected: str) -> RequestInvalid:
    return RequestInvalid([Problem("/query/cursor", "invalid_value", expected, shown(cursor))])
