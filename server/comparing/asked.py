"""Which jobs a request compares, with which of them, and of which columns."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Query

from ampcore.spec import Problem
from ampcore.spec.problems import shown
from server.deps import JOB_ID, no_job
from server.http.parameters import RequestInvalid
from server.telemetry.wanted import Columns

FEWEST: Final = 2
MOST: Final = 10
POINTS: Final = 500

Jobs = Annotated[
    str, Query(max_length=1000, description=f"{FEWEST} to {MOST} ids with commas between.")
]
Baseline = Annotated[
    str | None, Query(max_length=64, description="What the others are measured by: the first one.")
]
MaxPoints = Annotated[int, Query(ge=2, le=2000, description="Of each job.")]


@dataclass(frozen=True)
class Asked:
    """Ids that may be those of jobs, each once; the baseline is one of them."""

    jobs: list[str]
    baseline: str
    columns: list[str] | None
    max_points: int


def _asked(
    *,
    jobs: Jobs,
    baseline: Baseline = None,
    columns: Columns = None,
    max_points: MaxPoints = POINTS,
) -> Asked:
    ids = [job_id.strip() for job_id in jobs.split(",")]
    if len(set(ids)) != len(ids) or not FEWEST <= len(ids) <= MOST:
        expected = f"{FEWEST} to {MOST} different ids of jobs with commas between"
        raise RequestInvalid([Problem("/query/jobs", "invalid_value", expected, shown(jobs))])
    for job_id in ids:
        if not JOB_ID.fullmatch(job_id):
            raise no_job(job_id)
    if baseline is not None and baseline not in ids:
        expected = f"one of the jobs {', '.join(ids)}"
        problem = Problem("/query/baseline", "invalid_value", expected, shown(baseline))
        raise RequestInvalid([problem])
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    return Asked(ids, baseline or ids[0], names, max_points)


AskedDep = Annotated[Asked, Depends(_asked)]
"""The parameters of a comparison. Raises RequestInvalid, and NotFound for what is no id."""
