"""Jobs: the fields of one, pages of many, and the changes that a request can ask for."""

from datetime import datetime
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ampcore.api.base import AnyReason, AnyState, ApiModel, Number, StoredModel, UnknownState
from ampcore.spec.training import Labels


class Latest(ApiModel):
    """The values of the last step stored."""

    loss: Number | None = None
    loss_scale: Number | None = None
    grad_norm: Number | None = None
    learning_rate: Number | None = None
    examples_per_s: Number | None = None
    skipped: int | None = Field(default=None, description="Steps skipped so far.")


class Summary(ApiModel):
    """What the steps of a job add up to so far, and what is left of one that succeeded.

    What is null is not known, or not known yet.
    """

    steps: int | None = Field(
        default=None, description="Steps up to the current one, each counted once."
    )
    skipped: int | None = None
    skipped_share: float | None = Field(default=None, description="Of those steps, from 0 to 1.")
    applied_steps: int | None = Field(default=None, description="Those that were not skipped.")
    attempted_steps: int | None = Field(
        default=None, description="All steps of all attempts, those done again included."
    )
    repeated_steps: int | None = Field(
        default=None, description="Steps behind a checkpoint that a later attempt went back to."
    )
    steps_s: float | None = Field(default=None, description="Seconds that `steps` took.")
    skipped_s: float | None = Field(default=None, description="Seconds lost to skipped steps.")
    repeated_s: float | None = Field(default=None, description="Seconds lost to repeated steps.")
    last_loss: Number | None = None
    best_loss: Number | None = Field(default=None, description="The least finite one.")
    loss_scale: Number | None = Field(default=None, description="Of the last step.")
    last_examples_per_s: Number | None = None
    median_examples_per_s: Number | None = Field(
        default=None, description="Median over all steps, accurate to about 1%."
    )
    final_loss: Number | None = None
    final_loss_scale: Number | None = None
    val_loss: Number | None = None
    val_accuracy: Number | None = None
    examples_per_s: Number | None = Field(
        default=None, description="The mean of the whole training, of a job that succeeded."
    )
    parameters: int | None = None
    train_s: Number | None = Field(
        default=None, description="Of the last attempt, of a job that succeeded."
    )
    peak_memory_bytes: int | None = None
    policy: str | None = Field(default=None, description="The one that trained: never `auto`.")
    engine: str | None = None
    scale_health: str | None = Field(default=None, description="A word for the loss scale.")
    weights_digest: str | None = None
    model_file: str | None = None


class JobFields(StoredModel):
    """What the API says of a job beside its spec. Times are in UTC."""

    id: str
    name: str
    project: str
    state: AnyState
    reason: AnyReason | None = Field(description="Why it is in this state, for programs.")
    message: str | None = Field(description="Why it is in this state, for people.")
    waiting: str | None = Field(
        description="Why a queued job does not run yet; told only where one job is read."
    )
    priority: int = Field(description="From 0 to 9: the highest goes first.")
    queue: str = Field(description="Only workers that serve it may take the job.")
    attempt: int = Field(description="How many times a worker has taken it.")
    max_attempts: int
    failures: int = Field(description="Attempts that failed since it was posted, or retried.")
    step: int = Field(description="Steps done so far.")
    total_steps: int | None = Field(description="Known once the job runs.")
    progress: float | None = Field(description="From 0 to 1.")
    policy: str
    model: str
    labels: dict[str, str]
    worker_id: str | None
    latest: Latest | None
    summary: Summary | None
    loss_scale_mode: str | None = Field(description="What the spec says of the loss scale.")
    examples_per_step: int | None = Field(description="By the spec: the batch, times `accumulate`.")
    created_by: str | None = Field(description="The name of the token that posted it.")
    cloned_from: str | None = Field(description="The id of the job that it is a clone of.")
    request_id: str | None = Field(description="The X-Request-ID with which it was posted.")
    created_at: datetime
    not_before: datetime | None = Field(description="A job that failed waits until then.")
    started_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime

    @model_validator(mode="after")
    def _end_unknown_state(self) -> Self:
        """A job that has finished is in a terminal state, also if the state has a new name."""
        if isinstance(self.state, UnknownState) and self.finished_at is not None:
            self.__dict__["state"] = UnknownState(self.state, is_terminal=True)
        return self


class ListedJob(JobFields):
    """A job as it stands now, in a list."""

    spec: dict[str, Any] | None = Field(
        default=None, description="The normalised spec; left out unless `fields=spec` asks for it."
    )


class Job(JobFields):
    """A job as it stands now."""

    spec: dict[str, Any] = Field(description="The normalised spec: every default written out.")


class JobPage(ApiModel):
    """Some jobs in the order asked for; `next_cursor` leads to the ones behind them.

    A page may hold fewer jobs than `limit`, and `next_cursor` still lead on.
    """

    items: list[ListedJob]
    next_cursor: str | None


class RequestModel(BaseModel):
    """The body of a request, in strict types. Unknown fields are an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _remove_default(schema: dict[str, Any]) -> None:
    """What is left out stays as it is: the default of the field is never used."""
    del schema["default"]


class JobChanges(RequestModel):
    """What may be changed of a job; what is left out stays as it is."""

    name: str = Field(default="", min_length=1, max_length=200, json_schema_extra=_remove_default)
    labels: Labels = Field(default_factory=dict, description="All of them, in place of the old.")
    priority: int = Field(default=5, ge=0, le=9, json_schema_extra=_remove_default)


class CloneChanges(RequestModel):
    """What is to be different in a clone."""

    set: dict[str, Any] = Field(
        default_factory=dict,
        max_length=100,
        description='By dotted path: {"precision.policy": "float32", "train.epochs": 5}.',
        examples=[{"precision.policy": "float32"}],
    )
