"""The steps of a job as JSON: every step, or a downsampled range."""

from pydantic import Field

from ampcore.api.base import ApiModel, Number


class SkippedSteps(ApiModel):
    """The skipped steps of a range: the first of them, and how many there are."""

    total: int
    steps: list[int]


class ScaleChanges(ApiModel):
    """The steps of a range that used another loss scale than the step before; the first of them."""

    total: int
    step: list[int]
    before: list[Number]
    after: list[Number]
    column: list[str] = Field(description="Whose scale: `loss_scale`, `loss_scale/generator`.")


class AttemptRange(ApiModel):
    """Steps s with `start` ≤ s < `end`, as one attempt made them."""

    attempt: int
    start: int
    end: int


class Steps(ApiModel):
    """The values of steps or points: one list per column, all of one length."""

    data: dict[str, list[bool | int | Number]] = Field(
        description="step and the columns asked for: loss, loss_scale, skipped, grad_norm, "
        "learning_rate, step_time_s, examples, and named extras. "
        "Where a point holds several steps: its first `step`, their `count`, how many were "
        "`skipped`, and of each other column `loss.min`, `.max`, `.first`, `.last` and `.mean`."
    )
    steps_per_point: int = Field(description="1: every step is a point of its own.")
    skipped_steps: SkippedSteps | None = Field(default=None, description="With `max_points`.")
    scale_changes: ScaleChanges | None = Field(default=None, description="With `max_points`.")
    attempts: list[AttemptRange] = Field(
        description="Which attempt's steps are told, of the whole job: a stretch that ends "
        "earlier than before was superseded from there on, and is to be read again."
    )
    next: int | None = Field(
        description="The last step in this response, or the request's `after`: to continue, pass "
        "it as `after`."
    )
    more: bool = Field(description="Further steps are stored already.")
