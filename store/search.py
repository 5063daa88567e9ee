"""Search jobs: filters, order, and keyset pagination that loses no job.

A page starts after a position: the sort value of the last job, then its id. So new jobs shift
nothing, and jobs with equal values have a fixed order. Sorted by `created_at`, which never changes,
each job is listed once.

In any other order a job can move from after the position to before it while a client reads the
pages. So the jobs that changed since the first page was read are listed again at the end, in a
fixed order: each job that matches the whole time is listed at least once. Sorted by a metric, the
jobs without it follow those with it.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
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
from store.job_metrics import MetricFilter, has_metric
from store.job_order import JobOrder, MetricSort, Sort
from store.study_folding import StudyGroup, belongs_to, groups_of, is_first_of_study
from store.tables import Job, JobMetric

SPECS_PER_QUERY: Final = 4
SORT_KEY: Final = "sort_key"
"""The label of the column that a list is sorted by."""
LISTED_COLUMNS: Final[Sequence[ColumnElement[Any]]] = [
    *(column for column in Job.__table__.columns if column.name != "spec"),
    # As text: a damaged spec may hold anything there.
    Job.spec["loss_scale"]["mode"].as_string().label("loss_scale_mode"),
    Job.spec["data"]["batch_size"].as_string().label("batch_size"),
    Job.spec["train"]["accumulate"].as_string().label("accumulate"),
    Job.spec["runtime"]["workers"].as_string().label("workers"),
    Job.spec["runtime"]["devices"].as_string().label("devices"),
]

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
    metrics: tuple[MetricFilter, ...] = ()
    explanations: bool = True
    """Whether jobs that explain a step of another job match too."""
    study: str | None = None
    """Only the jobs of this study."""
    folds_studies: bool = False
    """Whether one job of each study stands for all of its jobs that match."""


class ListSection(StrEnum):
    """The sections of a list, which follow one another."""

    IN_ORDER = "in_order"
    WITHOUT_METRIC = "without_metric"
    """The jobs without the metric that the list is sorted by, the newest first."""
    MOVED = "moved"
    """The jobs that changed since the first page was read, the oldest first."""


@dataclass(frozen=True)
class PagePosition:
    """The end of a page: the section, the sort key and the id of its last job.

    `value` is None at the beginning of a section. `listing_started_at` is when the first page was
    read; None in an order in which no job moves.
    """

    value: Any
    job_id: str
    listing_started_at: datetime | None = None
    section: ListSection = ListSection.IN_ORDER


@dataclass(frozen=True)
class Page:
    """A page of jobs, and the position after which the next one starts; None on the last page.

    The rows have all columns of a job but its spec, which may be large, and two values of that.
    """

    jobs: Sequence[Any]
    next: PagePosition | None
    positions: Sequence[PagePosition | None]
    """The position of each job; None if its sort key cannot be read."""

    def after_position(self, count: int) -> PagePosition | None:
        """The position of the next page if this one ends after `count` jobs (1 or more)."""
        return self.next if count == len(self.jobs) else _last(self.positions[:count])


def page(
    session: Session,
    search: Search,
    *,
    sort: JobOrder,
    after_position: PagePosition | None,
    limit: int,
) -> Page:
    """At most `limit` jobs of a sorted list, after a position if given.

    A damaged job is included as `read_partially` returns it.
    """
    started_at = (
        _started_at(session, sort) if after_position is None else after_position.listing_started_at
    )
    rows: list[Any] = []
    positions: list[PagePosition | None] = []
    for section in _sections(sort, after_position):
        start = PagePosition(None, FIRST_ID, started_at, section)
        if after_position is not None and after_position.section is section:
            start = after_position
        left = limit - len(rows)
        statement = _statement(search, sort, start, listed=[row.id for row in rows])
        found = _fetch(session, statement.limit(left + 1))
        rows += [row for row, _ in found[:left]]
        positions += [_position(row, value, start) for row, value in found[:left]]
        if len(found) > left:
            return Page(rows, _last(positions) if left else start, positions)
    return Page(rows, None, positions)


def _sections(sort: JobOrder, after_position: PagePosition | None) -> Sequence[ListSection]:
    """The sections from a position on."""
    sections = [ListSection.IN_ORDER]
    if isinstance(sort, MetricSort):
        sections.append(ListSection.WITHOUT_METRIC)
    if after_position is None:  # all sections are read in one snapshot, in which no job moves
        return sections
    if not sort.is_fixed:
        sections.append(ListSection.MOVED)
    return sections[sections.index(after_position.section) :]


def _last(positions: Sequence[PagePosition | None]) -> PagePosition | None:
    """The position of the last job whose sort key can be read."""
    return next((position for position in reversed(positions) if position is not None), None)


def _position(row: Any, value: Any, start: PagePosition) -> PagePosition | None:
    return None if isinstance(value, Unreadable) else replace(start, value=value, job_id=row.id)


def _started_at(session: Session, sort: JobOrder) -> datetime | None:
    """The start time of a walk whose jobs may move; None if the order is fixed."""
    if sort.is_fixed:
        return None
    listing_started_at: datetime | None = session.scalar(select(now()))
    return listing_started_at


def _statement(
    search: Search, sort: JobOrder, start: PagePosition, listed: Collection[str]
) -> Select[Any]:
    """The jobs of a section after a position in it, in order, with their sort keys."""
    match start.section:
        case ListSection.IN_ORDER:
            return _in_order(search, sort, start)
        case ListSection.WITHOUT_METRIC:
            return _without_metric(search, sort.field, start)
    return _moved(search, sort, start, listed)


def _in_order(search: Search, sort: JobOrder, start: PagePosition) -> Select[Any]:
    """The jobs of the list in its order."""
    statement = _select(search, sort.key)
    if isinstance(sort, MetricSort):
        statement = statement.select_from(JobMetric).join(Job, Job.id == JobMetric.job_id)
        statement = statement.where(JobMetric.name == sort.field)
        # Of the same table as the value, so that one index has both.
        statement = _ordered(statement, (sort.key, JobMetric.job_id), start, sort.descends)
    else:
        statement = _ordered(statement, (sort.key, Job.id), start, sort.descends)
    if sort is Sort.UPDATED_AT and start.value is not None:
        # Otherwise running jobs would be listed repeatedly.
        statement = statement.where(Job.updated_at <= start.listing_started_at)
    return statement


def _without_metric(search: Search, metric: str, start: PagePosition) -> Select[Any]:
    statement = _select(search, Job.created_at).where(~has_metric(metric))
    return _ordered(statement, (Job.created_at, Job.id), start, descends=True)


def _moved(
    search: Search, sort: JobOrder, start: PagePosition, listed: Collection[str]
) -> Select[Any]:
    """The jobs that may have moved to before the position of the walk."""
    started_at = start.listing_started_at or EPOCH
    statement = _select(search, Job.created_at).where(
        sort.moved_since(started_at - timedelta(seconds=MAX_TRANSACTION_S)),
        Job.created_at <= started_at,
        Job.id.not_in(listed),
    )
    return _ordered(statement, (Job.created_at, Job.id), start, descends=False)


def _select(search: Search, key: InstrumentedAttribute[Any]) -> Select[Any]:
    """The jobs that match, with the columns of a list and the sort key."""
    return select(*LISTED_COLUMNS, key.label(SORT_KEY)).where(*_conditions(search))


def _ordered(
    statement: Select[Any],
    keys: tuple[InstrumentedAttribute[Any], InstrumentedAttribute[str]],
    start: PagePosition,
    descends: bool,
) -> Select[Any]:
    """In the order of these keys, after a position."""
    if start.value is not None:
        here = tuple_(*keys)
        there = tuple_(literal(start.value, keys[0].type), literal(start.job_id, keys[1].type))
        statement = statement.where(here < there if descends else here > there)
    return statement.order_by(*(key.desc() if descends else key for key in keys))


def _fetch(session: Session, statement: Select[Any]) -> list[tuple[Any, Any]]:
    """The rows with their sort keys."""
    try:
        return [(row, getattr(row, SORT_KEY)) for row in session.execute(statement)]
    except Exception as error:
        if not is_row_error(error):
            raise
    ids = session.scalars(statement.with_only_columns(Job.id)).all()
    rows = read_partially(session.connection(), ids)
    return [(row, _sort_key(session, statement, row.id)) for row in rows]


def _sort_key(session: Session, statement: Select[Any], job_id: str) -> Any:
    """The sort key of one of the jobs, or Unreadable."""
    key = statement.selected_columns[SORT_KEY]
    try:
        return session.scalar(
            statement.with_only_columns(key).where(Job.id == job_id).order_by(None)
        )
    except Exception as error:
        if not is_row_error(error):
            raise
        return Unreadable()


def specs(session: Session, job_ids: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The specs of these jobs, in order; only few of them are in memory at the same time."""
    for first in range(0, len(job_ids), SPECS_PER_QUERY):
        ids = job_ids[first : first + SPECS_PER_QUERY]
        rows = session.execute(select(Job.id, Job.spec).where(Job.id.in_(ids))).all()
        found = {row.id: row.spec for row in rows}
        yield from (found[job_id] for job_id in ids)


def folded_studies(
    session: Session, search: Search, job_ids: Sequence[str]
) -> dict[str, StudyGroup]:
    """The studies that these jobs of a list stand for, by the id of the job."""
    if not search.folds_studies or not job_ids:
        return {}
    return groups_of(session, _matching(search), job_ids)


def _conditions(search: Search) -> list[ColumnElement[bool]]:
    conditions = _matching(search)
    return [*conditions, is_first_of_study(conditions)] if search.folds_studies else conditions


def _matching(search: Search) -> list[ColumnElement[bool]]:
    """What the filters ask of a job."""
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
    if not search.explanations:
        conditions.append(Job.explains.is_(None))
    if search.study is not None:
        conditions.append(belongs_to(search.study))
    if search.states:
        conditions.append(Job.state.in_(search.states))
    if search.created_after is not None:
        conditions.append(Job.created_at > search.created_after)
    if search.q is not None:
        conditions.append(_matches_text(search.q))
    conditions += [one.condition() for one in search.metrics]
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
