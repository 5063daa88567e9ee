"""Find jobs: what a list is narrowed down to, its order, and pages that lose and repeat nothing.

A page goes on behind a place: the value that the list is sorted by, then the id. So jobs that are
posted meanwhile move nothing, and jobs with equal values keep an order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import ColumnElement, exists, literal, or_, select, tuple_
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import InstrumentedAttribute, Session
from sqlalchemy.sql.expression import FunctionElement

from ampcore.spec import State
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
    """Where a page ends: what its last job is sorted by, and its id."""

    value: Any
    job_id: str


def place_of(job: Job, sort: Sort) -> Place:
    """The place of a job in a sorted list."""
    return Place(getattr(job, sort.field), job.id)


def page(
    session: Session, search: Search, *, sort: Sort, behind: Place | None, limit: int
) -> Sequence[Job]:
    """At most `limit` jobs of a sorted list, those behind a place if one is named."""
    key = COLUMNS[sort.field]
    statement = select(Job).where(*_conditions(search))
    if behind is not None:
        here = tuple_(key, Job.id)
        there = tuple_(literal(behind.value, key.type), literal(behind.job_id, Job.id.type))
        statement = statement.where(here < there if sort.descends else here > there)
    order = (key.desc(), Job.id.desc()) if sort.descends else (key, Job.id)
    return session.scalars(statement.order_by(*order).limit(limit)).all()


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
