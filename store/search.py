"""Find jobs: what a list is narrowed down to, its order, and pages that lose nothing.

A page goes on behind a place: the value that the list is sorted by, then the id. So jobs that are
posted meanwhile move nothing, and jobs with equal values keep an order. Sorted by `created_at`,
which never changes, each job is listed once.

In any other order a job may move from behind the place to before it while somebody reads page
after page. So the jobs that changed since the first page was read are listed again at the end, in
an order that stays: each job that matches all the time is listed at least once.
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
from store.partial_rows import Unreadable, is_row_error, read_partially
from store.tables import Job


class Sort(StrEnum):
    """What a list is sorted by; with a dash the largest comes first."""

    CREATED_AT = "created_at"
    NEWEST = "-created_at"
    UPDATED_AT = "updated_at"
    LAST_UPDATED = "-updated_at"
    NAME = "name"
    NAME_BACKWARDS = "-name"
    PRIORITY = "priority"
    MOST_URGENT = "-priority"

    @property
    def descends(self) -> bool:
        """True when the largest comes first."""
        return self.startswith("-")

    @property
    def field(self) -> str:
        """The name of the job's field."""
        return self.removeprefix("-")


COLUMNS: Final[dict[str, InstrumentedAttribute[Any]]] = {
    "created_at": Job.created_at,
    "updated_at": Job.updated_at,
    "name": Job.name,
    "priority": Job.priority,
}
SPECS_AT_ONCE: Final = 4
LISTED: Final[Sequence[ColumnElement[Any]]] = [
    *(column for column in Job.__table__.columns if column.name != "spec"),
    # As text: in a damaged spec it may be anything.
    Job.spec["loss_scale"]["mode"].as_string().label("loss_scale_mode"),
    Job.spec["data"]["batch_size"].as_string().label("batch_size"),
    Job.spec["train"]["accumulate"].as_string().label("accumulate"),
]

CHANGED_AT: Final[dict[str, InstrumentedAttribute[Any]]] = {
    "updated_at": Job.updated_at,
    "name": Job.edited_at,
    "priority": Job.edited_at,
}
"""When a job moved last in a list that is sorted by that."""

IN_FLIGHT_S: Final = 30.0
"""A change that was written down, and not yet committed, when the first page was read is no older:
transactions of the server last milliseconds, and PostgreSQL ends those that stand still."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_ID: Final = "0" * 12


@dataclass(frozen=True)
class Search:
    """What is asked for; a part that is left empty asks for nothing."""

    project: str | None = None
    states: tuple[State, ...] = ()
    labels: tuple[tuple[str, str | None], ...] = ()
    """Key and value; any value will do where it is None."""
    q: str | None = None
    """A part of the name, or the beginning of the id."""
    policy: str | None = None
    model: str | None = None
    created_after: datetime | None = None


@dataclass(frozen=True)
class Place:
    """Where a page ends: what its last job is sorted by, and its id.

    `began` is when the first page was read. `is_among_moved`: the list in its order has come to its
    end, and the jobs that changed since `began` are being listed, sorted by `created_at`.
    """

    value: Any
    job_id: str
    began: datetime | None = None
    is_among_moved: bool = False


@dataclass(frozen=True)
class Page:
    """Some jobs, and behind which place the next page goes on; None: these are the last.

    Rows with the columns of a job but its spec, which may be large; of that, two values. The first
    `in_order` of them are those of the list in its order, the others have moved.
    """

    jobs: Sequence[Any]
    next: Place | None
    in_order: int
    field: str
    began: datetime | None

    def behind(self, count: int) -> Place | None:
        """Where the next page goes on if this one ends after `count` jobs, at least one."""
        if count == len(self.jobs):
            return self.next
        if count <= self.in_order:
            return _place_of(self.jobs[:count], self.field, self.began)
        moved = self.jobs[self.in_order : count]
        return _place_of(moved, "created_at", self.began, is_among_moved=True)


def page(session: Session, search: Search, *, sort: Sort, behind: Place | None, limit: int) -> Page:
    """At most `limit` jobs of a sorted list, those behind a place if one is named.

    A job that can be read in part only is there as `read_partially` gives it.
    """
    began = behind.began if behind is not None else _present(session, sort)

    def of(rows: Sequence[Any], in_order: int, go_on: Place | None) -> Page:
        return Page(rows, go_on, in_order, sort.field, began)

    rows: list[Any] = []
    if behind is None or not behind.is_among_moved:
        rows = _fetch(session, _in_order(search, sort, behind, began).limit(limit + 1))
        if len(rows) > limit:
            return of(rows[:limit], limit, _place_of(rows[:limit], sort.field, began))
    if behind is None or began is None:  # read at one moment, or in an order that stays
        return of(rows, len(rows), None)
    start = behind if behind.is_among_moved else Place(EPOCH, FIRST_ID, began, is_among_moved=True)
    left, listed = limit - len(rows), [row.id for row in rows]
    moved = _fetch(session, _moved(search, sort, start, began, listed).limit(left + 1))
    if len(moved) <= left:
        return of(rows + moved, len(rows), None)
    place = _place_of(moved[:left], "created_at", began, is_among_moved=True) if left else start
    return of(rows + moved[:left], len(rows), place)


def _place_of(
    rows: Sequence[Any], field: str, began: datetime | None, *, is_among_moved: bool = False
) -> Place | None:
    """The place of the last of some jobs; what cannot be read is no place."""
    for row in reversed(rows):
        value = getattr(row, field)
        if not isinstance(value, Unreadable):
            return Place(value, row.id, began, is_among_moved)
    return None


def _present(session: Session, sort: Sort) -> datetime | None:
    """When a walk begins whose jobs may move; None for an order that stays as it is."""
    if sort.field not in CHANGED_AT:
        return None
    began: datetime | None = session.scalar(select(now()))
    return began


def _in_order(
    search: Search, sort: Sort, behind: Place | None, began: datetime | None
) -> Select[Any]:
    """The jobs in their order."""
    key = COLUMNS[sort.field]
    statement = select(*LISTED).where(*_conditions(search))
    if behind is not None:
        here = tuple_(key, Job.id)
        there = tuple_(literal(behind.value, key.type), literal(behind.job_id, Job.id.type))
        statement = statement.where(here < there if sort.descends else here > there)
        if sort is Sort.UPDATED_AT:  # else jobs that train would be met again and again
            statement = statement.where(Job.updated_at <= began)
    order = (key.desc(), Job.id.desc()) if sort.descends else (key, Job.id)
    return statement.order_by(*order)


def _moved(
    search: Search, sort: Sort, behind: Place, began: datetime, listed: Collection[str]
) -> Select[Any]:
    """The jobs that may have moved to before the place that the list had got to."""
    since = began - timedelta(seconds=IN_FLIGHT_S)
    there = (literal(behind.value, Job.created_at.type), literal(behind.job_id, Job.id.type))
    statement = select(*LISTED).where(
        *_conditions(search),
        CHANGED_AT[sort.field] > since,
        Job.created_at <= began,
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
    """The specs of these jobs, in their order; few of them are in memory at one time."""
    for first in range(0, len(job_ids), SPECS_AT_ONCE):
        ids = job_ids[first : first + SPECS_AT_ONCE]
        rows = session.execute(select(Job.id, Job.spec).where(Job.id.in_(ids))).all()
        found = {row.id: row.spec for row in rows}
        yield from (found[job_id] for job_id in ids)


def _conditions(search: Search) -> list[ColumnElement[bool]]:
    conditions = [
        attribute == value
        for attribute, value in (
            (Job.project, search.project),
            (Job.policy, search.policy),
            (Job.model, search.model),
        )
        if value is not None
    ]
    if search.states:
        conditions.append(Job.state.in_(search.states))
    if search.created_after is not None:
        conditions.append(Job.created_at > search.created_after)
    if search.q is not None:
        conditions.append(_is_called(search.q))
    return conditions + [_has_label(key, value) for key, value in search.labels]


def _is_called(text: str) -> ColumnElement[bool]:
    return or_(
        Job.name.icontains(text, autoescape=True), Job.id.startswith(text.lower(), autoescape=True)
    )


def _has_label(key: str, value: str | None) -> ColumnElement[bool]:
    # Asked of the pairs, since no path expression takes every character that a key may have.
    pairs = _Pairs(Job.labels).table_valued("key", "value")
    found = [pairs.c.key == key] if value is None else [pairs.c.key == key, pairs.c.value == value]
    return exists(select(1).select_from(pairs).where(*found))


class _Pairs(FunctionElement[Any]):
    """The keys and values of a JSON object, as rows."""

    name = "pairs"
    inherit_cache = True


@compiles(_Pairs, "sqlite")
def _sqlite(element: Any, compiler: Any, **options: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **options)})"


@compiles(_Pairs, "postgresql")
def _postgresql(element: Any, compiler: Any, **options: Any) -> str:
    return f"jsonb_each_text({compiler.process(element.clauses, **options)})"
