"""List jobs: the query parameters of GET /jobs, and the page as JSON."""

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import repeat
from typing import Annotated, Any, Final

from fastapi import Depends, Query
from pydantic import AwareDatetime
from sqlalchemy.orm import Session

from ampspec.documents.problems import closest_match, format_value
from ampspec.jobs import Problem, State
from ampspec.telemetry.metrics import METRIC_PATTERN, is_metric
from server.deps import JOB_ID, PrincipalDep
from server.errors import Forbidden, RequestInvalid
from server.http.access.principal import Principal
from server.jobs.cursors import cursor_of, read_cursor
from server.jobs.jobs_response import JobsResponse
from server.row_models import listed_job_from_row
from store.database import Database
from store.job_metrics import MetricFilter
from store.listing import search as job_search
from store.listing.job_order import COLUMNS, JobOrder, MetricSort, Sort
from store.listing.search_filters import Search
from store.listing.waiting_reason import why_waiting

METRIC_FILTER: Final = re.compile(
    rf"\s*(?P<name>{METRIC_PATTERN})\s*(?P<comparison>[<>]=?|==?)(?P<value>[^=]*)"
)
MAX_IDS: Final = 100
DEFAULT_LIMIT: Final = 50
MAX_PAGE_BYTES: Final = 1_000_000
"""A page ends before the job that would exceed this size; its first job is always included."""

States = Annotated[
    list[State],
    Query(description="Only jobs in these states; repeatable."),
]
Labels = Annotated[
    list[Annotated[str, Query(max_length=321)]],
    Query(
        max_length=64,
        description="Only jobs with this label: `key=value`, or `key`; repeatable.",
    ),
]
NameOrId = Annotated[
    str | None,
    Query(max_length=200, description="Part of the name, or the start of the id."),
]
Policy = Annotated[
    str | None,
    Query(
        max_length=32,
        description="Only jobs with this policy, or for which `auto` chose it.",
    ),
]
Model = Annotated[str | None, Query(max_length=32, description="Only this kind of model.")]
Project = Annotated[str | None, Query(max_length=64, description="Only this project (for admins).")]
CreatedAfter = Annotated[AwareDatetime | None, Query(description="Only jobs created later.")]
CreatedBefore = Annotated[AwareDatetime | None, Query(description="Only jobs created earlier.")]
SortOrder = Annotated[
    str,
    Query(
        max_length=102,
        description="`created_at`, `updated_at`, `name`, `priority`, or a metric such as "
        "`val_loss`; `-` sorts in descending order. Jobs without the metric come last. By "
        "`created_at` each job is listed once; otherwise a job that changes while pages are read "
        "may be listed again.",
    ),
]
Metrics = Annotated[
    list[Annotated[str, Query(max_length=150)]],
    Query(
        max_length=16,
        description="Only jobs whose last evaluation has such a metric: `val_accuracy>=0.9`, with "
        ">=, <=, >, < or =; repeatable.",
    ),
]
Explanations = Annotated[
    bool,
    Query(
        description="Also jobs that explain a step of another job, which are left out otherwise."
    ),
]
OfStudy = Annotated[str | None, Query(max_length=32, description="Only the jobs of this study.")]
FoldStudies = Annotated[
    bool,
    Query(
        description="Of the jobs of each study that match, only the one that was planned first, "
        "with `study`: how many match, and their states."
    ),
]
InTrash = Annotated[
    bool,
    Query(description="Only jobs in the trash, with `purge_at`; they are not listed otherwise."),
]
Ids = Annotated[
    str | None,
    Query(
        max_length=13 * MAX_IDS,
        description=f"Only these jobs, up to {MAX_IDS} ids separated by commas, with `waiting`, "
        "and also those that explain a step. Ids without a visible job are left out.",
    ),
]
Limit = Annotated[int | None, Query(ge=1, le=100, description="Jobs per page: 50; with `id` 100.")]
Cursor = Annotated[
    str | None,
    Query(max_length=2000, description="`next_cursor` of a page with the same sort and filters."),
]


class ListField(StrEnum):
    """Fields that a list omits unless they are requested."""

    SPEC = "spec"


Fields = Annotated[
    list[ListField],
    Query(description="Additional fields of each job, which may be large."),
]


@dataclass(frozen=True)
class JobListQuery:
    """The parsed query parameters of a list."""

    search: Search
    sort: JobOrder
    limit: int
    cursor: str | None
    fields: frozenset[ListField]

    def page(self, database: Database) -> JobsResponse:
        """The page as JSON, with the cursor of the next one. Raises RequestInvalid."""
        after_position = read_cursor(self.cursor, self.search, self.sort) if self.cursor else None
        with database.read() as session:
            page = job_search.page(
                session,
                self.search,
                sort=self.sort,
                after_position=after_position,
                limit=self.limit,
            )
            items = list(_fit_into_page(self._items(session, page.jobs)))
        position = page.after_position(len(items))
        cursor = cursor_of(position, self.search, self.sort) if position else None
        states = {row.id: str(row.state) for row in page.jobs[: len(items)]}
        return JobsResponse.of(_document(items, cursor), states)

    def _items(self, session: Session, rows: Sequence[Any]) -> Iterator[bytes]:
        """The jobs as JSON, each encoded when the iterator reaches it."""
        ids = [row.id for row in rows]
        studies = job_search.folded_studies(session, self.search, ids)
        has_specs = ListField.SPEC in self.fields
        left_out = {"spec": not has_specs, "study": not self.search.folds_studies}
        excluded = {name for name, is_left_out in left_out.items() if is_left_out}
        specs = job_search.specs(session, ids) if has_specs else repeat(None, len(rows))
        waiting = why_waiting(session.connection(), rows) if self.search.ids else {}
        for row, spec in zip(rows, specs, strict=True):
            job = listed_job_from_row(row, spec, studies.get(row.id), waiting.get(row.id))
            yield job.model_dump_json(exclude=excluded).encode()


def _fit_into_page(items: Iterator[bytes]) -> Iterator[bytes]:
    """The first job, and those after it that fit into the page."""
    size = 0
    for item in items:
        size += len(item)
        if size > MAX_PAGE_BYTES and size > len(item):
            return
        yield item


def _document(items: Sequence[bytes], next_cursor: str | None) -> bytes:
    """The JSON of a JobPage, from jobs that are JSON already."""
    cursor = json.dumps(next_cursor).encode()
    return b'{"items":[%b],"next_cursor":%b}' % (b",".join(items), cursor)


async def _job_filters(
    *,
    principal: PrincipalDep,
    id: Ids = None,  # noqa: A002 - the name of the parameter
    state: States = [],  # noqa: B006 - FastAPI copies it
    label: Labels = [],  # noqa: B006
    q: NameOrId = None,
    policy: Policy = None,
    model: Model = None,
    project: Project = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    metric: Metrics = [],  # noqa: B006
    explanations: Explanations = False,
    study: OfStudy = None,
) -> Search:
    return Search(
        project=_project(principal, project),
        ids=_ids(id) if id is not None else (),
        states=tuple(sorted(set(state))),
        labels=tuple(_label(text) for text in label),
        q=q or None,
        policy=policy,
        model=model,
        created_after=_in_utc("created_after", created_after),
        created_before=_in_utc("created_before", created_before),
        metrics=tuple(_metric_filter(text) for text in metric),
        explanations=explanations or id is not None,
        study=study or None,
    )


JobFiltersDep = Annotated[Search, Depends(_job_filters)]
"""The filters in the query parameters, for the jobs that the token may see."""


async def _job_list_query(
    *,
    filters: JobFiltersDep,
    fold_studies: FoldStudies = False,
    trash: InTrash = False,
    sort: SortOrder = Sort.NEWEST,
    limit: Limit = None,
    cursor: Cursor = None,
    fields: Fields = [],  # noqa: B006 - FastAPI copies it
) -> JobListQuery:
    search = replace(filters, folds_studies=fold_studies, in_trash=trash)
    jobs_per_page = limit or (MAX_IDS if search.ids else DEFAULT_LIMIT)
    return JobListQuery(search, _order(sort), jobs_per_page, cursor, frozenset(fields))


def _project(principal: Principal, project: str | None) -> str | None:
    """The project to list; None for all projects."""
    if project is not None and not principal.sees(project):
        raise Forbidden(
            f"Expected the project {principal.visible_project!r}: only admins can list other "
            "projects."
        )
    return principal.visible_project or project


def _ids(text: str) -> tuple[str, ...]:
    ids = tuple(sorted(set(text.split(","))))
    if len(ids) <= MAX_IDS and all(JOB_ID.fullmatch(job_id) for job_id in ids):
        return ids
    expected = f"1 to {MAX_IDS} job ids separated by commas"
    raise RequestInvalid([Problem("/query/id", "invalid_value", expected, format_value(text))])


def _label(text: str) -> tuple[str, str | None]:
    key, equals, value = text.partition("=")
    if not key:
        expected = "key=value, or key"
        raise RequestInvalid(
            [Problem("/query/label", "invalid_value", expected, format_value(text))]
        )
    return key, value if equals else None


def _order(text: str) -> JobOrder:
    if text in list(Sort):
        return Sort(text)
    name = text.removeprefix("-")
    if is_metric(name):
        return MetricSort(name, descends=text.startswith("-"))
    expected = f"{', '.join(COLUMNS)}, or a metric such as val_loss; with - in descending order"
    suggestion = closest_match(text, list(Sort))
    raise RequestInvalid(
        [Problem("/query/sort", "invalid_value", expected, format_value(text), suggestion)]
    )


def _metric_filter(text: str) -> MetricFilter:
    match = METRIC_FILTER.fullmatch(text)
    value = _number(match["value"]) if match else None
    if match is None or value is None:
        expected = "a metric, >=, <=, >, < or =, and a number, as in val_accuracy>=0.9"
        raise RequestInvalid(
            [Problem("/query/metric", "invalid_value", expected, format_value(text))]
        )
    comparison = "=" if match["comparison"] == "==" else match["comparison"]
    return MetricFilter(match["name"], comparison, value)


def _number(text: str) -> float | None:
    """A finite number; None if the text is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _in_utc(parameter: str, moment: datetime | None) -> datetime | None:
    try:
        return moment.astimezone(UTC) if moment is not None else None
    except OverflowError:
        expected, received = "a time in the years 1 to 9999 in UTC", format_value(str(moment))
        problem = Problem(f"/query/{parameter}", "invalid_value", expected, received)
        raise RequestInvalid([problem]) from None


JobListQueryDep = Annotated[JobListQuery, Depends(_job_list_query)]
