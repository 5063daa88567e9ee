"""Read the range samples of a job, and what a number format would do to its layers."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Query, Request, Response

from ampspec.api.job.ranges import NumberFormatName, Ranges
from ampspec.precision.precision import float32_overrides
from server.deps import DatabaseDep, VisibleJobId
from server.documentation.openapi import ETAG_RESPONSES, problems
from server.http.etag import respond_unless_body_cached
from server.http.responses import ModelResponse
from server.http.router import api_router
from server.telemetry.range_reader import evenly_spaced, read_finite_below, read_samples
from store import tables
from store.telemetry import ranges

if TYPE_CHECKING:
    from ampspec.telemetry.ranges.range_samples import RangeSample

router = api_router("/jobs/{job_id}/ranges", tags=["steps"])

MAX_STEP: Final = 2**53
Start = Annotated[int, Query(ge=0, le=MAX_STEP, description="The first step.")]
End = Annotated[int | None, Query(ge=0, le=MAX_STEP, description="The step after the last one.")]
Format = Annotated[
    NumberFormatName, Query(alias="format", description="The number format of the report.")
]
MaxSamples = Annotated[
    int, Query(ge=1, le=200, description="At most this many samples, evenly spaced.")
]


@router.get(
    "",
    summary="Read the ranges of a job's layers",
    response_model=Ranges,
    responses={**ETAG_RESPONSES, **problems(404)},
)
def read(
    *,
    job_id: VisibleJobId,
    database: DatabaseDep,
    request: Request,
    start: Start = 0,
    end: End = None,
    number_format: Format = "float16",
    max_samples: MaxSamples = 50,
) -> Response:
    """Read the exponents of every layer's values and gradients at sampled steps.

    The report says what the number format would do to them at the loss scale used and at every
    other, and which layers it does not suit.
    """
    with database.read() as session:
        steps = ranges.steps(session, job_id, start=start, end=end)
        samples = read_samples(session, job_id, evenly_spaced(steps, max_samples))
        finite_below = read_finite_below(session, job_id, samples)
        loss_scale = session.get_one(tables.Job, job_id).spec.get("loss_scale") or {}
    content = _content(steps, samples, number_format, finite_below, loss_scale)
    return respond_unless_body_cached(request, ModelResponse(content))


def _content(
    steps: Sequence[int],
    samples: "list[RangeSample]",
    number_format: str,
    finite_below: Mapping[str, float],
    loss_scale: Mapping[str, Any],
) -> Ranges:
    # They load NumPy, which the other routes do not need.
    from ampspec.telemetry.ranges.number_formats import NUMBER_FORMATS
    from ampspec.telemetry.ranges.range_report import range_report
    from ampspec.telemetry.ranges.scale_advice import loss_scale_advice

    limits = NUMBER_FORMATS[number_format]
    report = range_report(samples, limits, finite_below)
    return Ranges.model_validate(
        {
            "steps": list(steps),
            "samples": [{"step": sample.step, **sample.to_json()} for sample in samples],
            "report": report
            and {
                **report.to_json(),
                "window": {
                    "min_subnormal": limits.min_subnormal_exponent,
                    "min_normal": limits.min_normal_exponent,
                    "max": limits.max_exponent,
                },
                "overrides": float32_overrides(report.float32_layers),
                "loss_scale": loss_scale_advice(report.scales, loss_scale),
            },
        }
    )
