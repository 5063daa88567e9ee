"""Find the ids of the jobs of a page on PostgreSQL: in the order of the list, or by its filters.

Where many jobs match, a page is full after a few jobs in the order of the list; where few match,
the index of the filter finds them. Statistics do not tell: of an old experiment's label they know
how many jobs have it, but not that all of these are at the end of the list, behind a million
others. So WINDOW jobs are read in order, and if these do not fill the page, the filters come first.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from store.damaged_rows import Unreadable, is_row_error
from store.listing.search_filters import Search, has_indexed_filter

SORT_KEY: Final = "sort_key"
"""The label of the column that a list is sorted by."""
WINDOW: Final = 5_000
"""This number of jobs is read in a few milliseconds."""
BY_FILTERS: Final = {"enable_seqscan": "off", "enable_indexscan": "off"}
"""Only bitmap scans: they read the rows that the index of a filter names."""
BY_STATISTICS: Final = {"enable_seqscan": "on", "enable_indexscan": "on"}


def plan_for_values(session: Session) -> None:
    """Let PostgreSQL plan each list until the end of the transaction for the values in its filters.

    A prepared statement would get one plan for all values.
    """
    if _is_postgresql(session):
        _set(session, {"plan_cache_mode": "force_custom_plan"})


def has_choice(session: Session, search: Search) -> bool:
    """Whether the jobs can be found in the order of the list and by a filter."""
    return _is_postgresql(session) and has_indexed_filter(search)


@contextmanager
def filters_first(session: Session) -> Iterator[None]:
    """Let PostgreSQL find the jobs by the indexes of the filters, and then sort them."""
    _set(session, BY_FILTERS)
    yield
    _set(session, BY_STATISTICS)


def _is_postgresql(session: Session) -> bool:
    return session.get_bind().dialect.name == "postgresql"


def _set(session: Session, settings: Mapping[str, str]) -> None:
    """Change settings until the end of the transaction."""
    session.execute(select(*(func.set_config(*setting, True) for setting in settings.items())))


def fetch_keys(session: Session, statement: Select[Any]) -> list[tuple[str, Any]]:
    """The ids and the sort keys that a statement finds; Unreadable for a damaged key."""
    try:
        return [(row.id, row[1]) for row in session.execute(statement)]
    except Exception as error:
        if not is_row_error(error):
            raise
    ids = session.scalars(statement.with_only_columns(statement.selected_columns[0])).all()
    return [(job_id, _sort_key(session, statement, job_id)) for job_id in ids]


def _sort_key(session: Session, statement: Select[Any], job_id: str) -> Any:
    """The sort key of one of the jobs, or Unreadable."""
    job, key = statement.selected_columns
    try:
        return session.scalar(statement.with_only_columns(key).where(job == job_id).order_by(None))
    except Exception as error:
        if not is_row_error(error):
            raise
        return Unreadable()
