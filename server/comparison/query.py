"""The query parameters of GET /compare."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Query

from ampspec.documents.problems import format_value
from ampspec.jobs import Problem
from server.deps import JOB_ID, job_not_found
from server.errors import RequestInvalid
from server.telemetry.steps_query import Columns

MIN_JOBS: Final = 2
MAX_JOBS: Final = 100
DEFAULT_POINTS: Final = 500
MAX_POINTS_OF_ALL: Final = 20_000
"""The points of all jobs together, so that 100 jobs have no more than ten may have."""

Jobs = Annotated[
    str,
    Query(max_length=4000, description=f"{MIN_JOBS} to {MAX_JOBS} job ids, separated by commas."),
]
Baseline = Annotated[
    str | None,
    Query(
        max_length=64, description="Job that the others are compared with; default: the first one."
    ),
]
MaxPoints = Annotated[
    int,
    Query(
        ge=2,
        le=2000,
        description="Maximum number of points per job; all jobs together have at most "
        f"{MAX_POINTS_OF_ALL:,}.",
    ),
]


@dataclass(frozen=True)
class CompareQuery:
    """The parsed parameters: distinct job ids, one of them the baseline, and columns."""

    jobs: list[str]
    baseline: str
    columns: list[str] | None
    max_points: int


def _compare_query(
    *,
    jobs: Jobs,
    baseline: Baseline = None,
    columns: Columns = None,
    max_points: MaxPoints = DEFAULT_POINTS,
) -> CompareQuery:
    ids = [job_id.strip() for job_id in jobs.split(",")]
    if len(set(ids)) != len(ids) or not MIN_JOBS <= len(ids) <= MAX_JOBS:
        expected = f"{MIN_JOBS} to {MAX_JOBS} different job ids, separated by commas"
        raise RequestInvalid(
            [Problem("/query/jobs", "invalid_value", expected, format_value(jobs))]
        )
    for job_id in ids:
        if not JOB_ID.fullmatch(job_id):
            raise job_not_found(job_id)
    if baseline is not None and baseline not in ids:
        expected = f"one of the jobs {', '.join(ids)}"
        problem = Problem("/query/baseline", "invalid_value", expected, format_value(baseline))
        raise RequestInvalid([problem])
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    return CompareQuery(
        ids, baseline or ids[0], names, min(max_points, MAX_POINTS_OF_ALL // len(ids))
    )


CompareQueryDep = Annotated[CompareQuery, Depends(_compare_query)]
"""Parse the parameters. Raises RequestInvalid, and NotFound for a malformed id."""
