"""The steps of a job as JSON: every step, or a downsampled range."""

from pydantic import Field

from ampspec.api.base import ApiModel, Number


class SkippedSteps(ApiModel):
    """The skipped steps of a range: their total, and the first of them."""

    total: int
    steps: list[int]


class ScaleChanges(ApiModel):
    """The loss-scale changes of a range: their total, and the first of them."""

    total: int
    step: list[int]
    before: list[Number]
    after: list[Number]
    column: list[str] = Field(
        description="The column of the scale: `loss_scale` or, for example, `loss_scale/generator`."
    )


class AttemptRange(ApiModel):
    """The steps s of one attempt with `start` ≤ s < `end`."""

    attempt: int
    start: int
    end: int


class Steps(ApiModel):
    """The values of steps or points: one list per column, all of the same length."""

    data: dict[str, list[bool | int | Number | None]] = Field(
        description="step and the requested columns: loss, loss_scale, skipped, grad_norm, "
        "learning_rate, step_time_s, examples, and named extras; null is an empty cell. "
        "Of downsampled points: the first `step`, the `count` of steps, the number `skipped`, and "
        "for each other column `loss.min`, `.max`, `.first`, `.last` and `.mean`."
    )
    steps_per_point: int = Field(description="1: every point is one step.")
    skipped_steps: SkippedSteps | None = Field(default=None, description="With `max_points`.")
    scale_changes: ScaleChanges | None = Field(default=None, description="With `max_points`.")
    attempts: list[AttemptRange] = Field(
        description="The attempt of each range of steps, of the whole job. If a range ends earlier "
        "than before, a later attempt superseded its steps: read them again."
    )
    next: int | None = Field(
        description="The last step in this response, or the request's `after`; pass it as `after` "
        "to continue."
    )
    more: bool = Field(description="Whether more steps are stored.")
