"""Which steps a request asks for, and in which form."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Query, Request

from ampcore.spec import Problem
from ampcore.spec.problems import shown
from server.http import accept
from server.http.parameters import RequestInvalid
from server.telemetry.forms import FORMS, JSON, FormName

LAST_STEP: Final = 2**53
PAGE: Final = 10_000
Start = Annotated[int, Query(ge=0, le=LAST_STEP, description="The first step wanted.")]
End = Annotated[int | None, Query(ge=0, le=LAST_STEP, description="The step after the last one.")]
After = Annotated[
    int | None, Query(ge=-1, le=LAST_STEP, description="Only later steps: poll with `next`.")
]
Columns = Annotated[
    str | None, Query(max_length=4000, description="Names with commas between; `step` comes along.")
]
Attempt = Annotated[
    int | None,
    Query(ge=1, le=2**31 - 1, description="As this attempt made them, superseded ones included."),
]
Limit = Annotated[
    int | None,
    Query(
        ge=1,
        le=100_000,
        description=f"Steps told at most. Left out: {PAGE:,} of them in JSON, else all.",
    ),
]
MaxPoints = Annotated[
    int | None,
    Query(
        ge=2,
        le=10_000,
        description="Tell the whole range in so many points: where there are more steps, each "
        "point holds several, with their min, max, first, last and mean.",
    ),
]
Form = Annotated[
    FormName | None, Query(alias="format", description="Instead of `Accept`, for links.")
]


@dataclass(frozen=True)
class Wanted:
    """A range of steps, in how many points, of which columns and attempt, and how written."""

    start: int
    end: int | None
    after: int | None
    columns: list[str] | None
    attempt: int | None
    limit: int | None
    max_points: int | None
    form: str

    @property
    def first(self) -> int:
        """The first step wanted."""
        return self.start if self.after is None else max(self.start, self.after + 1)


def _wanted(
    *,
    request: Request,
    start: Start = 0,
    end: End = None,
    after: After = None,
    columns: Columns = None,
    limit: Limit = None,
    max_points: MaxPoints = None,
    attempt: Attempt = None,
    form: Form = None,
) -> Wanted:
    if form is None:
        types = [each.media_type for each in FORMS.values()]
        chosen = accept.preferred(request.headers.get("accept", ""), types)
        name = next(name for name, each in FORMS.items() if each.media_type == chosen)
    else:
        name = str(form)
    if limit is not None and max_points is not None:
        expected = "no limit beside max_points, which tells of the whole range"
        raise RequestInvalid([Problem("/query/limit", "excluded", expected, shown(limit))])
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    if name == FormName.TENSORBOARD and names is not None:
        names.append("step_time_s")  # when each step was
    if name == JSON and max_points is None:
        limit = limit or PAGE
    return Wanted(start, end, after, names, attempt, limit, max_points, name)


WantedDep = Annotated[Wanted, Depends(_wanted)]
