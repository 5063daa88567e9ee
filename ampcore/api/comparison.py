"""Several jobs side by side."""

from pydantic import Field

from ampcore.api.base import ApiModel, JsonValues, Number
from ampcore.api.jobs import Job
from ampcore.api.steps import SkippedSteps


class ComparedJob(ApiModel):
    """One of the jobs, its steps in points of the common grid."""

    job: Job
    speedup: Number | None = Field(description="Its median examples/s over the baseline's.")
    loss_drift: Number | None = Field(
        description="Its mean loss in the last tenth of the steps that both have, over the "
        "baseline's, minus 1."
    )
    skipped_steps: SkippedSteps
    data: dict[str, list[int | Number]] = Field(
        description="As of steps in points, always with `count`, `skipped`, `.min` and so on; and "
        "`elapsed_s`: how long the steps took up to the end of the point."
    )


class Difference(ApiModel):
    """A place in which the specs differ."""

    pointer: str = Field(description="JSON pointer into the spec.")
    values: JsonValues = Field(description="Each job's, in order; null where it has no such place.")


class Result(ApiModel):
    """A figure of the jobs' states and summaries."""

    name: str
    values: JsonValues = Field(description="Each job's, in order; null where it is not known.")


class Comparison(ApiModel):
    """Several jobs side by side."""

    baseline: str
    steps_per_point: int = Field(
        description="Of every job: points with the same `step` // this belong together."
    )
    jobs: list[ComparedJob]
    spec: list[Difference]
    results: list[Result]
