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

from sqlalchemy import ColumnElement, Select, bindparam, literal, select, tuple_, union_all
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from ampspec.jobs import ACTIVE
from store.clock import now
from store.damaged_rows import Unreadable, is_row_error, read_partially
from store.job_metrics import has_metric
from store.listing.job_order import JobOrder, MetricSort, Sort
from store.listing.search_filters import Search, conditions, matching
from store.listing.search_plan import (
    SORT_KEY,
    WINDOW,
    fetch_keys,
    filters_first,
    has_choice,
    plan_for_values,
)
from store.listing.study_folding import StudyGroup, groups_of
from store.tables import Job, JobMetric

SPECS_PER_QUERY: Final = 4
LISTED_COLUMNS: Final[Sequence[ColumnElement[Any]]] = [
    *(column for column in Job.__table__.columns if column.name != "spec"),
    # As text: a damaged spec may hold anything there.
    Job.spec["loss_scale"]["mode"].as_string().label("loss_scale_mode"),
    Job.spec["data"]["batch_size"].as_string().label("batch_size"),
    Job.spec["train"]["accumulate"].as_string().label("accumulate"),
    Job.spec["runtime"]["workers"].as_string().label("workers"),
    Job.spec["runtime"]["devices"].as_string().label("devices"),
]
_LISTED_BY_ID: Final = select(*LISTED_COLUMNS).where(
    Job.id.in_(bindparam("job_ids", expanding=True))
)

MAX_TRANSACTION_S: Final = 30.0
"""The maximum age of a change that was uncommitted when the first page was read: transactions of
the server take milliseconds, and PostgreSQL ends idle ones."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_ID: Final = "0" * 12


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
class SearchPage:
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
) -> SearchPage:
    """At most `limit` jobs of a sorted list, after a position if given.

    The ids of a page are found first, by indexes; only its jobs are read. A damaged job is included
    as `read_partially` returns it.
    """
    started_at = (
        _started_at(session, sort) if after_position is None else after_position.listing_started_at
    )
    job_ids: list[str] = []
    positions: list[PagePosition | None] = []
    next_position: PagePosition | None = None
    plan_for_values(session)
    for section in _sections(sort, after_position):
        start = PagePosition(None, FIRST_ID, started_at, section)
        if after_position is not None and after_position.section is section:
            start = after_position
        room = limit - len(job_ids)
        keys = _find_keys(session, search, sort, start, listed=job_ids, limit=room + 1)
        job_ids += [job_id for job_id, _ in keys[:room]]
        positions += [_position(job_id, value, start) for job_id, value in keys[:room]]
        if len(keys) > room:
            next_position = _last(positions) if room else start
            break
    by_id = {row.id: row for row in _listed_jobs(session, job_ids)}
    # A job may have been deleted since its id was read, unless the session reads a snapshot.
    places = [place for place, job_id in enumerate(job_ids) if job_id in by_id]
    jobs = [by_id[job_ids[place]] for place in places]
    return SearchPage(jobs, next_position, [positions[place] for place in places])


def _listed_jobs(session: Session, job_ids: Sequence[str]) -> Sequence[Any]:
    """The columns of a list of these jobs."""
    try:
        return session.execute(_LISTED_BY_ID, {"job_ids": list(job_ids)}).all()
    except Exception as error:
        if not is_row_error(error):
            raise
    return read_partially(session.connection(), job_ids)


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


def _position(job_id: str, value: Any, start: PagePosition) -> PagePosition | None:
    return None if isinstance(value, Unreadable) else replace(start, value=value, job_id=job_id)


def _started_at(session: Session, sort: JobOrder) -> datetime | None:
    """The start time of a walk whose jobs may move; None if the order is fixed."""
    if sort.is_fixed:
        return None
    listing_started_at: datetime | None = session.scalar(select(now()))
    return listing_started_at


def _find_keys(
    session: Session,
    search: Search,
    sort: JobOrder,
    start: PagePosition,
    *,
    listed: Collection[str],
    limit: int,
) -> list[tuple[str, Any]]:
    """The first jobs of a section after a position in it, in order: their ids and sort keys."""
    match start.section:
        case ListSection.WITHOUT_METRIC:
            return fetch_keys(session, _without_metric(search, sort.field, start).limit(limit))
        case ListSection.MOVED:
            return fetch_keys(session, _moved(search, sort, start, listed).limit(limit))
    if isinstance(sort, MetricSort):
        return fetch_keys(session, _by_metric(search, sort, start).limit(limit))
    statement = _by_update if sort.field == "updated_at" else _by_field
    if not has_choice(session, search):
        return fetch_keys(session, statement(search, sort, start, limit))
    keys = fetch_keys(session, statement(search, sort, start, limit, window=WINDOW))
    if len(keys) == limit:
        return keys
    with filters_first(session):
        return fetch_keys(session, statement(search, sort, start, limit))


def _by_metric(search: Search, sort: MetricSort, start: PagePosition) -> Select[Any]:
    """The jobs with a metric in its order."""
    statement = _select(search, sort.key).select_from(JobMetric)
    statement = statement.join(Job, Job.id == JobMetric.job_id).where(JobMetric.name == sort.field)
    # Of the same table as the value, so that one index has both.
    return _ordered(statement, (sort.key, JobMetric.job_id), start, sort.descends)


def _by_field(
    search: Search, sort: Sort, start: PagePosition, limit: int, *, window: int | None = None
) -> Select[Any]:
    """The jobs in the order of a field."""
    return _first_jobs(search, sort, start, sort.key, limit=limit, window=window)


def _first_jobs(
    search: Search,
    sort: Sort,
    start: PagePosition,
    key: InstrumentedAttribute[Any],
    *where: ColumnElement[bool],
    limit: int,
    window: int | None,
) -> Select[Any]:
    """The first jobs that match in the order of a key; with `window`, of the next so many jobs."""
    if window is None:
        matching_jobs = _select(search, key).where(*where)
        return _ordered(matching_jobs, (key, Job.id), start, sort.descends).limit(limit)
    next_jobs = _ordered(select(Job).where(*where), (key, Job.id), start, sort.descends)
    if search.project is not None:
        next_jobs = next_jobs.where(Job.project == search.project)
    job = aliased(Job, next_jobs.limit(window).subquery())
    job_key = getattr(job, key.key)
    matching_jobs = select(job.id, job_key.label(SORT_KEY)).where(*conditions(search, job))
    return _ordered(matching_jobs, (job_key, job.id), start, sort.descends).limit(limit)


def _by_update(
    search: Search, sort: Sort, start: PagePosition, limit: int, *, window: int | None = None
) -> Select[Any]:
    """The jobs in the order of their last update.

    A heartbeat changes `updated_at`, so no index can have it. But few jobs are active; of all
    others `changed_at`, which has an index, is the time of the last update.
    """
    parts = []
    for key, is_part in (
        (Job.updated_at, Job.state.in_(ACTIVE)),
        (Job.changed_at, Job.state.not_in(ACTIVE)),
    ):
        where: list[ColumnElement[bool]] = [is_part]
        if start.value is not None:
            # Otherwise running jobs would be listed repeatedly.
            where.append(key <= start.listing_started_at)
        part = _first_jobs(search, sort, start, key, *where, limit=limit, window=window)
        parts.append(select(part.subquery()))
    columns = union_all(*parts).subquery().c
    order = (columns[SORT_KEY], columns.id)
    return (
        select(columns.id, columns[SORT_KEY])
        .order_by(*(key.desc() if sort.descends else key for key in order))
        .limit(limit)
    )


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
    """The ids and sort keys of the jobs that match."""
    return select(Job.id, key.label(SORT_KEY)).where(*conditions(search))


def _ordered(
    statement: Select[Any],
    keys: tuple[InstrumentedAttribute[Any], InstrumentedAttribute[str]],
    start: PagePosition,
    descends: bool,
) -> Select[Any]:
    """In the order of these keys, after a position."""
    if start.value is not None:
        row_key = tuple_(*keys)
        start_key = tuple_(literal(start.value, keys[0].type), literal(start.job_id, keys[1].type))
        statement = statement.where(row_key < start_key if descends else row_key > start_key)
    return statement.order_by(*(key.desc() if descends else key for key in keys))


def specs(session: Session, job_ids: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The specs of these jobs, in order; only few of them are in memory at the same time."""
    for first in range(0, len(job_ids), SPECS_PER_QUERY):
        ids = job_ids[first : first + SPECS_PER_QUERY]
        rows = session.execute(select(Job.id, Job.spec).where(Job.id.in_(ids))).all()
        spec_by_id = {row.id: row.spec for row in rows}
        yield from (spec_by_id[job_id] for job_id in ids)


def folded_studies(
    session: Session, search: Search, job_ids: Sequence[str]
) -> dict[str, StudyGroup]:
    """The studies that these jobs of a list stand for, by the id of the job."""
    if not search.folds_studies or not job_ids:
        return {}
    return groups_of(session, matching(search), job_ids)
