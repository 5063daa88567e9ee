"""What a comparison answers."""

from typing import Any

from pydantic import Field

from server.views import Job, Number, SkippedSteps, View


class ComparedJob(View):
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


class Difference(View):
    """A place in which the specs differ."""

    pointer: str = Field(description="JSON pointer into the spec.")
    values: list[Any] = Field(description="Each job's, in order; null where it has no such place.")


class Result(View):
    """A figure of the jobs' states and summaries."""

    name: str
    values: list[Any] = Field(description="Each job's, in order; null where it is not known.")


class Comparison(View):
    """Several jobs side by side."""

    baseline: str
    steps_per_point: int = Field(
        description="Of every job: points with the same `step` // this belong together."
    )
    jobs: list[ComparedJob]
    spec: list[Difference]
    results: list[Result]
