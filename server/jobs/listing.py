"""The parameters of a list of jobs."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final

from fastapi import Depends, Query
from pydantic import AwareDatetime
from sqlalchemy.orm import Session

from ampcore.spec import Problem, State
from ampcore.spec.problems import shown
from server.access.principal import Principal
from server.deps import PrincipalDep
from server.errors import Forbidden
from server.http.parameters import RequestInvalid
from server.jobs.paging import cursor_of, read_cursor
from server.views import ListedJob
from store import search
from store.database import Database
from store.search import Search, Sort

MAX_PAGE_BYTES: Final = 1_000_000
"""A page ends before the job that would make it longer; its first job is always told."""

States = Annotated[list[State], Query(description="Only in these states; may be repeated.")]
Labels = Annotated[
    list[Annotated[str, Query(max_length=321)]],
    Query(max_length=64, description="Only with these: `key=value`, or `key`; may be repeated."),
]
Text = Annotated[
    str | None,
    Query(max_length=200, description="A part of the name, or the beginning of the id."),
]
Policy = Annotated[str | None, Query(max_length=32, description="Only with this policy.")]
Model = Annotated[str | None, Query(max_length=32, description="Only with this kind of model.")]
Project = Annotated[str | None, Query(max_length=64, description="For admins: only of this one.")]
CreatedAfter = Annotated[AwareDatetime | None, Query(description="Only those posted later.")]
Order = Annotated[
    Sort,
    Query(
        description="With a dash the largest, or newest, comes first. By `created_at` each job is "
        "listed once; by anything else a job that changes while pages are read may come again."
    ),
]
Limit = Annotated[int, Query(ge=1, le=100)]
Cursor = Annotated[
    str | None,
    Query(max_length=2000, description="`next_cursor` of a page with the same sort and filters."),
]


class ListField(StrEnum):
    """What a list leaves out of its jobs unless it is asked for."""

    SPEC = "spec"


Fields = Annotated[
    list[ListField],
    Query(description="Further fields of each job, which may be large; may be repeated."),
]


@dataclass(frozen=True)
class Listing:
    """What was asked for, and from where on."""

    search: Search
    sort: Sort
    limit: int
    cursor: str | None
    fields: frozenset[ListField]

    def page(self, database: Database) -> bytes:
        """Some jobs, and what leads on to the next ones, as JSON. Raises RequestInvalid."""
        behind = read_cursor(self.cursor, self.search, self.sort) if self.cursor else None
        with database.read() as session:
            page = search.page(
                session, self.search, sort=self.sort, behind=behind, limit=self.limit
            )
            items = list(_first_bytes(self._items(session, page.jobs)))
        place = page.behind(len(items))
        return _document(items, cursor_of(place, self.search, self.sort) if place else None)

    def _items(self, session: Session, rows: Sequence[Any]) -> Iterator[bytes]:
        """The jobs as JSON, each read when it is asked for."""
        if ListField.SPEC not in self.fields:
            for row in rows:
                yield ListedJob.listed(row, None).model_dump_json(exclude={"spec"}).encode()
            return
        specs = search.specs(session, [row.id for row in rows])
        for row, spec in zip(rows, specs, strict=True):
            yield ListedJob.listed(row, spec).model_dump_json().encode()


def _first_bytes(items: Iterator[bytes]) -> Iterator[bytes]:
    """The first one, and those behind it that fit into a page with it."""
    size = 0
    for item in items:
        size += len(item)
        if size > MAX_PAGE_BYTES and size > len(item):
            return
        yield item


def _document(items: Sequence[bytes], next_cursor: str | None) -> bytes:
    """The JSON of a JobPage, of jobs that are JSON already."""
    cursor = json.dumps(next_cursor).encode()
    return b'{"items":[%b],"next_cursor":%b}' % (b",".join(items), cursor)


async def _listing(
    *,
    principal: PrincipalDep,
    state: States = [],  # noqa: B006 - FastAPI copies it
    label: Labels = [],  # noqa: B006
    q: Text = None,
    policy: Policy = None,
    model: Model = None,
    project: Project = None,
    created_after: CreatedAfter = None,
    sort: Order = Sort.NEWEST,
    limit: Limit = 50,
    cursor: Cursor = None,
    fields: Fields = [],  # noqa: B006
) -> Listing:
    wanted = Search(
        project=_project(principal, project),
        states=tuple(sorted(set(state))),
        labels=tuple(_label(text) for text in label),
        q=q or None,
        policy=policy,
        model=model,
        created_after=_in_utc(created_after),
    )
    return Listing(wanted, sort, limit, cursor, frozenset(fields))


def _project(principal: Principal, wanted: str | None) -> str | None:
    """The one project to list; None: every one."""
    if wanted is not None and principal.sees not in (None, wanted):
        raise Forbidden(f"Expected the project {principal.sees!r}: only admins see other ones.")
    return principal.sees or wanted


def _label(text: str) -> tuple[str, str | None]:
    key, equals, value = text.partition("=")
    if not key:
        expected = "key=value, or key"
        raise RequestInvalid([Problem("/query/label", "invalid_value", expected, shown(text))])
    return key, value if equals else None


def _in_utc(moment: datetime | None) -> datetime | None:
    try:
        return moment.astimezone(UTC) if moment is not None else None
    except OverflowError:
        expected, received = "a moment of the years 1 to 9999 in UTC", shown(str(moment))
        place = "/query/created_after"
        raise RequestInvalid([Problem(place, "invalid_value", expected, received)]) from None


ListingDep = Annotated[Listing, Depends(_listing)]
