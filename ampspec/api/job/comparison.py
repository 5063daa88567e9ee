"""Comparisons of several jobs."""

from pydantic import Field

from ampspec.api.base import ApiModel, JsonValues, Number
from ampspec.api.job.jobs import Job
from ampspec.api.job.steps import SkippedSteps


class ComparedJob(ApiModel):
    """One of the jobs, with its steps downsampled on the common grid."""

    job: Job
    speedup: Number | None = Field(description="Its median examples/s divided by the baseline's.")
    loss_drift: Number | None = Field(
        description="Its mean loss over the last tenth of the steps that both jobs have, divided "
        "by the baseline's, minus 1."
    )
    skipped_steps: SkippedSteps
    data: dict[str, list[int | Number]] = Field(
        description="The columns of `Steps.data` for downsampled steps, and `elapsed_s`, the "
        "seconds from the first step to the end of the point."
    )
    evaluations: dict[str, list[int | Number]] = Field(
        description="Its evaluations: `step`, `epoch` (-1 if unknown), `elapsed_s`, and a list "
        "for each metric, such as `val_loss`."
    )


class Difference(ApiModel):
    """A field in which the specs differ."""

    pointer: str = Field(description="JSON pointer into the spec.")
    values: JsonValues = Field(
        description="The value of each job, in order; null if it has no such field."
    )


class Result(ApiModel):
    """One result of the jobs, from their states and summaries."""

    name: str
    values: JsonValues = Field(description="The value of each job, in order; null if unknown.")


class Comparison(ApiModel):
    """A comparison of several jobs."""

    baseline: str
    steps_per_point: int = Field(
        description="The same for every job: points with equal `step` // `steps_per_point` cover "
        "the same steps."
    )
    jobs: list[ComparedJob]
    spec: list[Difference]
    results: list[Result]
