"""Search jobs: filters, order, and keyset pagination that loses no job.

A page starts after a position: the sort value of the last job, then its id. So new jobs shift
nothing, and jobs with equal values have a fixed order. Sorted by `created_at`, which never changes,
each job is listed once.

In any other order a job can move from after the position to before it while a client reads the
pages. So the jobs that changed since the first page was read are listed again at the end, in a
fixed order: each job that matches the whole time is listed at least once.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, exists, literal, or_, select, tuple_
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import InstrumentedAttribute, Session
from sqlalchemy.sql.expression import FunctionElement

from ampcore.spec import State
from store.clock import now
from store.damaged_rows import Unreadable, is_row_error, read_partially
from store.tables import Job


class Sort(StrEnum):
    """The sort key of a list; with a dash, in descending order."""

    CREATED_AT = "created_at"
    NEWEST = "-created_at"
    UPDATED_AT = "updated_at"
    LAST_UPDATED = "-updated_at"
    NAME = "name"
    NAME_DESCENDING = "-name"
    PRIORITY = "priority"
    HIGHEST_PRIORITY = "-priority"

    @property
    def descends(self) -> bool:
        """Whether the order is descending."""
        return self.startswith("-")

    @property
    def field(self) -> str:
        """The job's field without the dash."""
        return self.removeprefix("-")


COLUMNS: Final[dict[str, InstrumentedAttribute[Any]]] = {
    "created_at": Job.created_at,
    "updated_at": Job.updated_at,
    "name": Job.name,
    "priority": Job.priority,
}
SPECS_PER_QUERY: Final = 4
LISTED_COLUMNS: Final[Sequence[ColumnElement[Any]]] = [
    *(column for column in Job.__table__.columns if column.name != "spec"),
    # As text: a damaged spec may hold anything there.
    Job.spec["loss_scale"]["mode"].as_string().label("loss_scale_mode"),
    Job.spec["data"]["batch_size"].as_string().label("batch_size"),
    Job.spec["train"]["accumulate"].as_string().label("accumulate"),
]

MOVED_AT: Final[dict[str, InstrumentedAttribute[Any]]] = {
    "updated_at": Job.updated_at,
    "name": Job.edited_at,
    "priority": Job.edited_at,
}
"""The time at which a job last moved in a list with that sort key."""

MAX_TRANSACTION_S: Final = 30.0
"""The maximum age of a change that was uncommitted when the first page was read: transactions of
the server take milliseconds, and PostgreSQL ends idle ones."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_ID: Final = "0" * 12


@dataclass(frozen=True)
class Search:
    """The filters of a search; an empty one matches every job."""

    project: str | None = None
    states: tuple[State, ...] = ()
    labels: tuple[tuple[str, str | None], ...] = ()
    """Label key and value; None matches any value."""
    q: str | None = None
    """A part of the name, or a prefix of the id."""
    policy: str | None = None
    """The policy in the spec, or the one that the job trains with."""
    model: str | None = None
    created_after: datetime | None = None


@dataclass(frozen=True)
class PagePosition:
    """The end of a page: the sort keys of its last job, and its id.

    `listing_started_at` is when the first page was read. `is_in_moved_jobs`: the list in its own
    order is finished, and the jobs that changed since `listing_started_at` follow, sorted by
    `created_at`.
    """

    value: Any
    job_id: str
    listing_started_at: datetime | None = None
    is_in_moved_jobs: bool = False


@dataclass(frozen=True)
class Page:
    """A page of jobs, and the position after which the next one starts; None on the last page.

    The rows have all columns of a job but its spec, which may be large, and two values of that.
    The first `in_order` rows belong to the list in its order; the others are jobs that moved.
    """

    jobs: Sequence[Any]
    next: PagePosition | None
    in_order: int
    field: str
    listing_started_at: datetime | None

    def after_position(self, count: int) -> PagePosition | None:
        """The position of the next page if this one ends after `count` jobs (1 or more)."""
        if count == len(self.jobs):
            return self.next
        if count <= self.in_order:
            return _position_of_last(self.jobs[:count], self.field, self.listing_started_at)
        moved = self.jobs[self.in_order : count]
        return _position_of_last(
            moved, "created_at", self.listing_started_at, is_in_moved_jobs=True
        )


def page(
    session: Session, search: Search, *, sort: Sort, after_position: PagePosition | None, limit: int
) -> Page:
    """At most `limit` jobs of a sorted list, after a position if given.

    A damaged job is included as `read_partially` returns it.
    """
    listing_started_at = (
        after_position.listing_started_at
        if after_position is not None
        else _started_at(session, sort)
    )

    def of(rows: Sequence[Any], in_order: int, go_on: PagePosition | None) -> Page:
        return Page(rows, go_on, in_order, sort.field, listing_started_at)

    rows: list[Any] = []
    if after_position is None or not after_position.is_in_moved_jobs:
        rows = _fetch(
            session, _in_order(search, sort, after_position, listing_started_at).limit(limit + 1)
        )
        if len(rows) > limit:
            return of(
                rows[:limit], limit, _position_of_last(rows[:limit], sort.field, listing_started_at)
            )
    if (
        after_position is None or listing_started_at is None
    ):  # read in one query, or in a fixed order
        return of(rows, len(rows), None)
    start = (
        after_position
        if after_position.is_in_moved_jobs
        else PagePosition(EPOCH, FIRST_ID, listing_started_at, is_in_moved_jobs=True)
    )
    left, listed = limit - len(rows), [row.id for row in rows]
    moved = _fetch(session, _moved(search, sort, start, listing_started_at, listed).limit(left + 1))
    if len(moved) <= left:
        return of(rows + moved, len(rows), None)
    place = (
        _position_of_last(moved[:left], "created_at", listing_started_at, is_in_moved_jobs=True)
        if left
        else start
    )
    return of(rows + moved[:left], len(rows), place)


def _position_of_last(
    rows: Sequence[Any],
    field: str,
    listing_started_at: datetime | None,
    *,
    is_in_moved_jobs: bool = False,
) -> PagePosition | None:
    """The position of the last job whose sort value can be read."""
    for row in reversed(rows):
        value = getattr(row, field)
        if not isinstance(value, Unreadable):
            return PagePosition(value, row.id, listing_started_at, is_in_moved_jobs)
    return None


def _started_at(session: Session, sort: Sort) -> datetime | None:
    """The start time of a walk whose jobs may move; None if the order is fixed."""
    if sort.field not in MOVED_AT:
        return None
    listing_started_at: datetime | None = session.scalar(select(now()))
    return listing_started_at


def _in_order(
    search: Search,
    sort: Sort,
    after_position: PagePosition | None,
    listing_started_at: datetime | None,
) -> Select[Any]:
    """The jobs of the list in its order."""
    key = COLUMNS[sort.field]
    statement = select(*LISTED_COLUMNS).where(*_conditions(search))
    if after_position is not None:
        here = tuple_(key, Job.id)
        there = tuple_(
            literal(after_position.value, key.type), literal(after_position.job_id, Job.id.type)
        )
        statement = statement.where(here < there if sort.descends else here > there)
        if sort is Sort.UPDATED_AT:  # otherwise running jobs would be listed repeatedly
            statement = statement.where(Job.updated_at <= listing_started_at)
    order = (key.desc(), Job.id.desc()) if sort.descends else (key, Job.id)
    return statement.order_by(*order)


def _moved(
    search: Search,
    sort: Sort,
    after_position: PagePosition,
    listing_started_at: datetime,
    listed: Collection[str],
) -> Select[Any]:
    """The jobs that may have moved to before the position of the walk."""
    since = listing_started_at - timedelta(seconds=MAX_TRANSACTION_S)
    there = (
        literal(after_position.value, Job.created_at.type),
        literal(after_position.job_id, Job.id.type),
    )
    statement = select(*LISTED_COLUMNS).where(
        *_conditions(search),
        MOVED_AT[sort.field] > since,
        Job.created_at <= listing_started_at,
        tuple_(Job.created_at, Job.id) > tuple_(*there),
        Job.id.not_in(listed),
    )
    return statement.order_by(Job.created_at, Job.id)


def _fetch(session: Session, statement: Select[Any]) -> list[Any]:
    try:
        return list(session.execute(statement))
    except Exception as error:
        if not is_row_error(error):
            raise
    ids = session.scalars(statement.with_only_columns(Job.id)).all()
    return list(read_partially(session.connection(), ids))


def specs(session: Session, job_ids: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The specs of these jobs, in order; only few of them are in memory at the same time."""
    for first in range(0, len(job_ids), SPECS_PER_QUERY):
        ids = job_ids[first : first + SPECS_PER_QUERY]
        rows = session.execute(select(Job.id, Job.spec).where(Job.id.in_(ids))).all()
        found = {row.id: row.spec for row in rows}
        yield from (found[job_id] for job_id in ids)


def _conditions(search: Search) -> list[ColumnElement[bool]]:
    conditions = [
        attribute == value
        for attribute, value in (
            (Job.project, search.project),
            (Job.model, search.model),
        )
        if value is not None
    ]
    if search.policy is not None:
        conditions.append(or_(Job.policy == search.policy, Job.resolved_policy == search.policy))
    if search.states:
        conditions.append(Job.state.in_(search.states))
    if search.created_after is not None:
        conditions.append(Job.created_at > search.created_after)
    if search.q is not None:
        conditions.append(_matches_text(search.q))
    return conditions + [_has_label(key, value) for key, value in search.labels]


def _matches_text(text: str) -> ColumnElement[bool]:
    return or_(
        Job.name.icontains(text, autoescape=True), Job.id.startswith(text.lower(), autoescape=True)
    )


def _has_label(key: str, value: str | None) -> ColumnElement[bool]:
    # Compares key-value pairs: no JSON path expression allows every character of a key.
    pairs = _JsonPairs(Job.labels).table_valued("key", "value")
    found = [pairs.c.key == key] if value is None else [pairs.c.key == key, pairs.c.value == value]
    return exists(select(1).select_from(pairs).where(*found))


class _JsonPairs(FunctionElement[Any]):
    """The keys and values of a JSON object, as rows."""

    name = "pairs"
    inherit_cache = True


@compiles(_JsonPairs, "sqlite")
def _sqlite(element: Any, compiler: Any, **options: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **options)})"


@compiles(_JsonPairs, "postgresql")
def _postgresql(element: Any, compiler: Any, **options: Any) -> str:
    return f"jsonb_each_text({compiler.process(element.clauses, **options)})"
