"""Jobs: their fields, pages of jobs, and the bodies of requests that change them."""

from datetime import datetime
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ampspec.api.base import (
    AnyReason,
    AnySource,
    AnyState,
    ApiModel,
    Number,
    StoredModel,
    UnknownState,
)
from ampspec.training.training import MAX_LABELS, LabelKey, Labels, LabelValue


class Latest(ApiModel):
    """The values of the last stored step."""

    loss: Number | None = None
    loss_scale: Number | None = None
    grad_norm: Number | None = None
    learning_rate: Number | None = None
    examples_per_s: Number | None = None
    skipped: int | None = Field(default=None, description="The number of steps skipped so far.")


class BestEvaluation(ApiModel):
    """The evaluation with the best value of the metric in `train.best`."""

    metric: str
    value: Number
    epoch: int = Field(description="Counted from 0.")
    steps: int = Field(description="The completed steps at the evaluation.")
    metrics: dict[str, Number] = Field(description="All metrics of the evaluation.")


class EarlyStop(ApiModel):
    """Why a job ended before its last epoch: its evaluations no longer improved."""

    epoch: int = Field(description="The last epoch that was trained, counted from 0.")
    metric: str
    best: Number | None = Field(description="Its best value; null if none was finite.")


class Summary(ApiModel):
    """Totals over the steps of a job so far, and the results of a job that succeeded.

    A null value is not known, or not known yet.
    """

    steps: int | None = Field(default=None, description="Completed steps, each counted once.")
    skipped: int | None = None
    skipped_share: float | None = Field(
        default=None, description="The share of skipped steps, from 0 to 1."
    )
    applied_steps: int | None = Field(default=None, description="Steps that were not skipped.")
    attempted_steps: int | None = Field(
        default=None, description="All steps of all attempts, including repeated ones."
    )
    repeated_steps: int | None = Field(
        default=None, description="Steps that a later attempt repeated from a checkpoint."
    )
    steps_s: float | None = Field(default=None, description="Seconds that `steps` took.")
    skipped_s: float | None = Field(default=None, description="Seconds that skipped steps took.")
    repeated_s: float | None = Field(default=None, description="Seconds that repeated steps took.")
    last_loss: Number | None = None
    best_loss: Number | None = Field(default=None, description="The lowest finite loss.")
    loss_scale: Number | None = Field(default=None, description="The scale of the last step.")
    last_examples_per_s: Number | None = None
    median_examples_per_s: Number | None = Field(
        default=None, description="Median over all steps, accurate to about 1%."
    )
    final_loss: Number | None = None
    final_loss_scale: Number | None = None
    val_loss: Number | None = None
    val_accuracy: Number | None = None
    examples_per_s: Number | None = Field(
        default=None, description="The mean of the whole training; of a job that succeeded."
    )
    parameters: int | None = None
    train_s: Number | None = Field(
        default=None, description="Seconds of the last attempt; of a job that succeeded."
    )
    peak_memory_bytes: int | None = None
    policy: str | None = Field(
        default=None, description="The policy used for training; never `auto`."
    )
    tf32: bool | None = Field(
        default=None, description="Whether float32 products could be computed in TF32."
    )
    engine: str | None = None
    scale_health: str | None = Field(
        default=None, description="The health of the loss scale, for example `steady`."
    )
    weights_digest: str | None = None
    model_file: str | None = None
    best: BestEvaluation | None = Field(
        default=None, description="The best evaluation; null unless the spec asks for it."
    )
    stopped_early: EarlyStop | None = Field(
        default=None, description="Null if the job trained to its end."
    )
    best_model_file: str | None = Field(
        default=None, description="With `train.keep: both`, the model with the best weights."
    )


class Uploading(ApiModel):
    """Files that the worker of a job still uploads after the training."""

    files: int = Field(description="The number of files not yet stored.")
    size_bytes: int = Field(description="The total size of the files uploaded after the training.")
    sent_bytes: int = Field(description="How many of these bytes are stored.")


class JobFields(StoredModel):
    """The fields of a job other than its spec. Times are in UTC."""

    id: str
    source: AnySource = Field(
        description="`submitted`: a worker runs it. `tracked`: it runs elsewhere, and its program "
        "sends its steps."
    )
    name: str
    project: str
    state: AnyState
    reason: AnyReason | None = Field(description="The reason for the state, as a code.")
    message: str | None = Field(description="The reason for the state, as text.")
    waiting: str | None = Field(
        description="Why a queued job does not run yet; not in lists, unless of jobs given by `id`."
    )
    priority: int = Field(
        description="From 0 to 9; within a project a point equals six hours of waiting."
    )
    queue: str = Field(description="Only workers that serve this queue may run the job.")
    attempt: int = Field(
        description="The number of the current or last attempt; 0 before the first."
    )
    max_attempts: int
    ranks: int = Field(
        default=1,
        description="The maximum number of processes that train it together, each on one device.",
    )
    failures: int = Field(description="Failed attempts since the job was submitted or retried.")
    step: int = Field(description="The number of completed steps.")
    total_steps: int | None = Field(description="null until the job runs.")
    progress: float | None = Field(description="From 0 to 1.")
    policy: str
    resolved_policy: str | None = Field(
        description="The policy in use: the one chosen by `auto`, or float32 after a fallback. "
        "Null until the job has started."
    )
    model: str
    labels: dict[str, str]
    uploading: Uploading | None = Field(
        default=None,
        description="The files that its worker still stores; null except between the end of the "
        "training and the end of the job.",
    )
    activity: str | None = Field(
        default=None,
        description="What it is doing, a second late: `downloading`, `starting` (the trainer), "
        "`preparing` (model and data), `compiling`, `training`, `diagnosing` (value ranges, or a "
        "skipped step), `evaluating`, `saving` or `uploading`; null unless a worker has it and "
        "says so. Shorter ones are not shown.",
    )
    activity_since: datetime | None = Field(
        default=None, description="When it began that; null without an activity."
    )
    worker_id: str | None
    latest: Latest | None
    summary: Summary | None
    metrics: dict[str, Number] | None = Field(
        description="The metrics of the last evaluation, such as `val_loss`; null before the first."
    )
    loss_scale_mode: str | None = Field(description="The loss-scale mode in the spec.")
    examples_per_step: int | None = Field(
        description="`batch_size` × `accumulate` × ranks: the examples of all ranks."
    )
    created_by: str | None = Field(description="The name of the token that submitted the job.")
    cloned_from: str | None = Field(description="The id of the job that it was cloned from.")
    extends: str | None = Field(
        description="The id of the job from whose last checkpoint it continues."
    )
    explains: str | None = Field(
        default=None, description="The id of the job whose step it repeats and explains."
    )
    explain_step: int | None = Field(
        default=None, description="The explained step, counted from 0."
    )
    request_id: str | None = Field(description="The X-Request-ID of the request that submitted it.")
    trace_id: str | None = Field(
        default=None,
        description="The OpenTelemetry trace of its submission and its attempts; null if none is "
        "recorded, and in lists.",
    )
    created_at: datetime
    not_before: datetime | None = Field(
        description="The job does not run before this time (the delay after a failure)."
    )
    started_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime
    purge_at: datetime | None = Field(
        default=None,
        description="It was deleted, and can be restored until then; null for all other jobs.",
    )
    seq: int = Field(
        default=0,
        description="The number of its last entry in `/stream`: pass it as `after` to follow the "
        "job from this state on.",
    )

    @model_validator(mode="after")
    def _end_unknown_state(self) -> Self:
        """A job with an end time is in a terminal state, even if the state is unknown."""
        if isinstance(self.state, UnknownState) and self.finished_at is not None:
            self.__dict__["state"] = UnknownState(self.state, is_terminal=True)
        return self


class FoldedStudy(StoredModel):
    """A study whose jobs are one row of a list."""

    id: str
    name: str
    kind: str
    state: str
    jobs: int = Field(description="How many of its jobs match the filters of the list.")
    states: dict[str, int] = Field(description="How many of these are in each state.")
    jobs_planned: int | None = Field(
        default=None, description="How many jobs the study has planned so far, with all others."
    )
    jobs_ended: int | None = Field(default=None, description="How many of these have ended.")
    summary: str | None = Field(
        default=None, description="The answer in a sentence or two; null until there is one."
    )


class ListedJob(JobFields):
    """The current state of a job, in a list."""

    study: FoldedStudy | None = Field(
        default=None,
        description="With `fold_studies`: the study whose jobs this row represents.",
    )

    spec: dict[str, Any] | None = Field(
        default=None, description="The normalised spec; only with `fields=spec`."
    )


class Job(JobFields):
    """The current state of a job."""

    spec: dict[str, Any] = Field(
        description="The normalised spec, with all defaults filled in; of a tracked run a "
        "`TrackedSpec`."
    )


class JobPage(ApiModel):
    """A page of jobs in the requested order; `next_cursor` is the cursor of the next page.

    A page may have fewer jobs than `limit` although there is a next page.
    """

    items: list[ListedJob]
    next_cursor: str | None


class ChangedJobs(ApiModel):
    """The jobs cancelled or deleted by a bulk request."""

    ids: list[str]
    more: bool = Field(
        description="Whether more jobs match; repeat the request with a new idempotency key."
    )


class SubmittedJobs(ApiModel):
    """The jobs that were submitted together, in the order of their specs."""

    items: list[Job]


class RequestModel(BaseModel):
    """The body of a request, in strict types. Unknown fields are an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _remove_default(schema: dict[str, Any]) -> None:
    """Remove the default from the schema: a field that is left out is not changed."""
    del schema["default"]


class JobChanges(RequestModel):
    """The changes to a job; fields that are left out are not changed."""

    name: str = Field(default="", min_length=1, max_length=200, json_schema_extra=_remove_default)
    labels: Labels = Field(
        default_factory=dict, description="All labels; they replace the existing ones."
    )
    priority: int = Field(default=5, ge=0, le=9, json_schema_extra=_remove_default)


class LabelChanges(RequestModel):
    """The labels to change on several jobs; all others stay."""

    labels: dict[LabelKey, LabelValue | None] = Field(
        min_length=1,
        max_length=MAX_LABELS,
        description="The new value of each label; null removes it.",
        examples=[{"team": "vision", "draft": None}],
    )


class Extension(RequestModel):
    """The additional training of the new job."""

    epochs: int = Field(
        ge=1, le=1_000_000, description="The number of further epochs.", examples=[5]
    )


class ProfileRequest(RequestModel):
    """A request to profile the next steps of a running job."""

    steps: int = Field(default=10, ge=1, le=200, description="The number of steps.", examples=[10])


class CloneChanges(RequestModel):
    """The changes to the spec of a clone."""

    set: dict[str, Any] = Field(
        default_factory=dict,
        max_length=100,
        description='Values by dotted path: {"precision.policy": "float32", "train.epochs": 5}.',
        examples=[{"precision.policy": "float32"}],
    )
