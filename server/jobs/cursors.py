"""Pagination cursors: an opaque string for the position where the next page starts.

A cursor is valid only for the order and filters that it was created with.
"""

import base64
import json
import math
from collections.abc import Callable
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from ampspec.documents.problems import format_value
from ampspec.jobs import Problem
from server.deps import JOB_ID
from server.errors import RequestInvalid
from server.http.parameters import is_storable, parse_utc
from store.listing.job_order import JobOrder, MetricSort
from store.listing.search import ListSection, PagePosition
from store.listing.search_filters import Search


def cursor_of(position: PagePosition, search: Search, sort: JobOrder) -> str:
    """The cursor for the page after a position."""
    value, listing_started_at = (
        order_value.isoformat() if isinstance(order_value, datetime) else order_value
        for order_value in (position.value, position.listing_started_at)
    )
    parts = [
        _query_fingerprint(search, sort),
        value,
        position.job_id,
        listing_started_at,
        position.section,
    ]
    text = json.dumps(parts, ensure_ascii=False)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_cursor(cursor: str, search: Search, sort: JobOrder) -> PagePosition:
    """The position in a cursor. Raises RequestInvalid, also for the cursor of another list."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        document = json.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
        mark, value, job_id, listing_started_at, section_name = document
        if mark != _query_fingerprint(search, sort):
            raise _invalid(cursor, "a cursor of a list with the same sort and filters")
        section = ListSection(section_name)
        return PagePosition(
            _parse_value(value, sort, section),
            _parse_job_id(job_id),
            None if sort.is_fixed else _parse_time(listing_started_at),
            section,
        )
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise _invalid(cursor, "the next_cursor of an earlier response") from None


def _query_fingerprint(search: Search, sort: JobOrder) -> str:
    """A digest of the order and filters of a list."""
    return sha256(f"{sort} {search}".encode("utf-8", "backslashreplace")).hexdigest()[:16]


def _parse_value(value: Any, sort: JobOrder, section: ListSection) -> Any:
    """The sort key. Raises ValueError if the list has no such section."""
    is_metric = isinstance(sort, MetricSort)
    if (section is ListSection.WITHOUT_METRIC and not is_metric) or (
        section is ListSection.MOVED and sort.is_fixed
    ):
        raise ValueError(section)
    if section is not ListSection.IN_ORDER:
        return None if value is None else _parse_time(value)
    return _parse_number(value) if is_metric else VALUE_PARSERS[sort.field](value)


def _parse_number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(value)
    return float(value)


def _parse_time(value: Any) -> datetime:
    return parse_utc(value)


def _parse_text(value: Any) -> str:
    if not isinstance(value, str) or not is_storable(value):
        raise ValueError(value)
    return value


def _parse_priority(value: Any) -> int:
    if value not in range(10) or isinstance(value, bool):
        raise ValueError(value)
    return int(value)


def _parse_job_id(value: Any) -> str:
    if not JOB_ID.fullmatch(value):
        raise ValueError(value)
    return str(value)


VALUE_PARSERS: Final[dict[str, Callable[[Any], Any]]] = {
    "created_at": _parse_time,
    "updated_at": _parse_time,
    "name": _parse_text,
    "priority": _parse_priority,
}
"""The function that parses the sort value."""


def _invalid(cursor: str, expected: str) -> RequestInvalid:
    return RequestInvalid(
        [Problem("/query/cursor", "invalid_value", expected, format_value(cursor))]
    )
