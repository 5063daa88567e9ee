"""The query parameters of GET /jobs/{job_id}/steps."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Query, Request

from ampspec.documents.problems import format_value
from ampspec.jobs import Problem
from server.errors import RequestInvalid
from server.http import accept
from server.telemetry.formats import FORMATS, JSON, FormatName

MAX_STEP: Final = 2**53
DEFAULT_LIMIT: Final = 10_000
Start = Annotated[int, Query(ge=0, le=MAX_STEP, description="The first step.")]
End = Annotated[int | None, Query(ge=0, le=MAX_STEP, description="The step after the last one.")]
After = Annotated[
    int | None,
    Query(alias="after", ge=-1, le=MAX_STEP, description="Only later steps; to poll, pass `next`."),
]
Columns = Annotated[
    str | None,
    Query(max_length=4000, description="Comma-separated column names; `step` is always included."),
]
Attempt = Annotated[
    int | None,
    Query(ge=1, le=2**31 - 1, description="The steps of this attempt, including superseded ones."),
]
Limit = Annotated[
    int | None,
    Query(
        ge=1,
        le=100_000,
        description=f"The maximum number of steps. Default: {DEFAULT_LIMIT:,} in JSON, else all.",
    ),
]
MaxPoints = Annotated[
    int | None,
    Query(
        ge=2,
        le=10_000,
        description="Downsample the whole range to at most this many points; a point has the min, "
        "max, first, last and mean of its steps.",
    ),
]
Form = Annotated[
    FormatName | None,
    Query(alias="format", description="The format, instead of `Accept`; for links."),
]


@dataclass(frozen=True)
class StepsQuery:
    """The parsed parameters: range, number of points, columns, attempt and format."""

    start: int
    end: int | None
    after_step: int | None
    columns: list[str] | None
    attempt: int | None
    limit: int | None
    max_points: int | None
    form: str

    @property
    def first(self) -> int:
        """The first requested step."""
        return self.start if self.after_step is None else max(self.start, self.after_step + 1)


def _steps_query(
    *,
    request: Request,
    start: Start = 0,
    end: End = None,
    after_step: After = None,
    columns: Columns = None,
    limit: Limit = None,
    max_points: MaxPoints = None,
    attempt: Attempt = None,
    form: Form = None,
) -> StepsQuery:
    if form is None:
        types = [step_format.media_type for step_format in FORMATS.values()]
        chosen = accept.preferred_media_type(request.headers.get("accept", ""), types)
        name = next(
            name for name, step_format in FORMATS.items() if step_format.media_type == chosen
        )
    else:
        name = str(form)
    if limit is not None and max_points is not None:
        expected = "limit or max_points, not both"
        raise RequestInvalid([Problem("/query/limit", "excluded", expected, format_value(limit))])
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    if name == FormatName.TENSORBOARD and names is not None:
        names.append("step_time_s")  # the time of each step
    if name == JSON and max_points is None:
        limit = limit or DEFAULT_LIMIT
    return StepsQuery(start, end, after_step, names, attempt, limit, max_points, name)


StepsQueryDep = Annotated[StepsQuery, Depends(_steps_query)]
