"""The filters of a list of jobs, as SQL conditions."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, false, literal, or_
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import FunctionElement

from ampspec.jobs import State
from store.job_metrics import MetricFilter
from store.listing.study_folding import belongs_to, is_first_of_study
from store.tables import Job

MIN_INDEXED_CHARACTERS: Final = 2
MAX_INDEXED_CHARACTERS: Final = 3
"""The lengths of the parts of names that PostgreSQL has in an index."""
ID_PREFIX: Final = re.compile(r"[0-9a-f]{1,12}")


@dataclass(frozen=True)
class Search:
    """The filters of a search; an empty one matches every job."""

    project: str | None = None
    ids: tuple[str, ...] = ()
    """Only these jobs."""
    states: tuple[State, ...] = ()
    labels: tuple[tuple[str, str | None], ...] = ()
    """Label key and value; None matches any value."""
    q: str | None = None
    """A part of the name, or a prefix of the id."""
    policy: str | None = None
    """The policy in the spec, or the one that the job trains with."""
    model: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    metrics: tuple[MetricFilter, ...] = ()
    explanations: bool = True
    """Whether jobs that explain a step of another job match too."""
    study: str | None = None
    """Only the jobs of this study."""
    in_trash: bool = False
    """Only jobs in the trash, instead of all others."""
    folds_studies: bool = False
    """Whether one job of each study stands for all of its jobs that match."""


def conditions(search: Search, job: type[Job] = Job) -> list[ColumnElement[bool]]:
    """The conditions on a job of the list, which may be an alias."""
    filters = matching(search, job)
    if search.folds_studies:
        filters.append(is_first_of_study(job, lambda table: matching(search, table)))
    return filters


def matching(search: Search, job: type[Job] = Job) -> list[ColumnElement[bool]]:
    """The SQL conditions of the filters on `job`, which may be an alias."""
    in_trash = job.purge_at.is_not(None)
    filters: list[ColumnElement[bool]] = [in_trash if search.in_trash else job.purge_at.is_(None)]
    if search.project is not None:
        filters.append(job.project == search.project)
    if search.ids:
        filters.append(job.id.in_(search.ids))
    if search.model is not None:
        filters.append(job.model == search.model)
    if search.policy is not None:
        filters.append(or_(job.policy == search.policy, job.resolved_policy == search.policy))
    if not search.explanations:
        filters.append(job.explains.is_(None))
    if search.study is not None:
        filters.append(belongs_to(search.study, job))
    if search.states:
        filters.append(job.state.in_(search.states))
    if search.created_after is not None:
        filters.append(job.created_at > search.created_after)
    if search.created_before is not None:
        filters.append(job.created_at < search.created_before)
    if search.q is not None:
        filters.append(_matches_text(job, search.q))
    filters += [metric.condition(job) for metric in search.metrics]
    return filters + [has_label(job, key, value) for key, value in search.labels]


def has_indexed_filter(search: Search) -> bool:
    """Whether PostgreSQL has an index of a filter that says nothing about the order of a list."""
    has_long_text = search.q is not None and len(search.q) >= MIN_INDEXED_CHARACTERS
    return bool(search.ids or search.labels or search.policy or search.model) or has_long_text


def _matches_text(job: type[Job], text: str) -> ColumnElement[bool]:
    name = job.name.icontains(text, autoescape=True)
    if len(text) >= MIN_INDEXED_CHARACTERS:
        name = and_(name, _HasNameParts(job.name, literal(text)))  # the cheap one first
    return or_(name, _has_id_prefix(job, text.lower()))


def _has_id_prefix(job: type[Job], text: str) -> ColumnElement[bool]:
    # A range, and not LIKE: in most collations no index serves that. Ids are hexadecimal.
    if not ID_PREFIX.fullmatch(text):
        return false()
    return and_(job.id >= text, job.id < f"{text}g")


def has_label(job: type[Job], key: str, value: str | None) -> ColumnElement[bool]:
    """Whether a job has a label, with any value if the value is None."""
    return _HasLabel(job.labels, literal(key), *([] if value is None else [literal(value)]))


class _HasNameParts(FunctionElement[bool]):
    """Whether a name has the parts of a text: what an index knows of `name ILIKE '%text%'`."""

    name = "has_name_parts"
    inherit_cache = True


@compiles(_HasNameParts, "sqlite")
def _any_name(element: Any, compiler: Any, **options: Any) -> str:
    return "1"


@compiles(_HasNameParts, "postgresql")
def _name_parts(element: Any, compiler: Any, **options: Any) -> str:
    name, text = (compiler.process(clause, **options) for clause in element.clauses)
    size = f"least(length({text}), {MAX_INDEXED_CHARACTERS})"
    name_parts = f"ampcore_name_parts({name}, {MIN_INDEXED_CHARACTERS})"
    return f"{name_parts} @> ampcore_name_parts({text}, {size})"


class _HasLabel(FunctionElement[bool]):
    """Whether a JSON object has a key, with a value if one is given.

    Compares pairs: no expression for a JSON path allows every character of a key.
    """

    name = "has_label"
    inherit_cache = True


@compiles(_HasLabel, "sqlite")
def _label_in_pairs(element: Any, compiler: Any, **options: Any) -> str:
    labels, *pair = (compiler.process(clause, **options) for clause in element.clauses)
    terms = zip(("pair.key", "pair.value"), pair, strict=False)
    where = " AND ".join(f"{column} = {value}" for column, value in terms)
    return f"EXISTS (SELECT 1 FROM json_each({labels}) AS pair WHERE {where})"  # noqa: S608


@compiles(_HasLabel, "postgresql")
def _label_in_index(element: Any, compiler: Any, **options: Any) -> str:
    labels, key, *value = (compiler.process(clause, **options) for clause in element.clauses)
    if not value:
        return f"{labels} ? CAST({key} AS text)"
    return f"{labels} @> jsonb_build_object(CAST({key} AS text), CAST({value[0]} AS text))"
