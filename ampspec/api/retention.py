"""Retention rules of projects: what is deleted, of which jobs, and when."""

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import Field

from ampspec.api.base import ApiModel, RequestModel
from ampspec.training.training import MAX_LABELS, LabelKey, LabelValue

MAX_RULES: Final = 20
MAX_PREVIEW_IDS: Final = 10

LabelFilters = Annotated[dict[LabelKey, LabelValue | None], Field(max_length=MAX_LABELS)]
"""Labels with their values; null is any value."""


class RetentionRule(RequestModel):
    """What is deleted `after_days`; of jobs that have ended, and that match all filters."""

    delete: Literal["jobs", "checkpoints", "logs", "audit"] = Field(
        description="`jobs` go into the trash. `checkpoints` and `logs` are those of jobs that "
        "stay, with their models, metrics and curves. `audit` is the project's audit log."
    )
    after_days: float = Field(
        gt=0,
        le=36_500,
        allow_inf_nan=False,
        description="Days since the job has ended, or since the entry of the audit log.",
    )
    states: list[Literal["succeeded", "failed", "cancelled"]] = Field(
        default_factory=list, max_length=3, description="Only jobs in these states; empty: all."
    )
    labels: LabelFilters = Field(
        default_factory=dict, description="Only jobs with all of these labels."
    )
    except_labels: LabelFilters = Field(
        default_factory=dict, description="No job with any of these labels."
    )
    keep: int = Field(
        default=1,
        ge=0,
        le=1,
        description="The newest checkpoints of a job that stay. Without one a job can neither be "
        "extended, nor continue when it is retried.",
    )


class RetentionChanges(RequestModel):
    """The rules of a project; they replace those before."""

    rules: list[RetentionRule] = Field(max_length=MAX_RULES)


class RetentionPreviewRequest(RequestModel):
    """The rules to preview."""

    rules: list[RetentionRule] | None = Field(
        default=None, max_length=MAX_RULES, description="By default those of the project."
    )


class ProjectRetention(ApiModel):
    """The retention rules of a project; without any, nothing is deleted."""

    project: str
    rules: list[RetentionRule]
    changed_at: datetime | None = None
    changed_by: str | None = Field(
        default=None, description="The name of the token that changed them last."
    )
    next_run_at: datetime | None = Field(
        default=None, description="The rules are applied each hour; first an hour after a change."
    )


class RetentionMatch(ApiModel):
    """What a rule would delete now."""

    rule: RetentionRule
    count: int = Field(
        description="The jobs to delete, those with checkpoints or logs to delete, or the entries."
    )
    size_bytes: int | None = Field(description="What is freed of the storage or the database.")
    ids: list[str] = Field(
        description=f"The first {MAX_PREVIEW_IDS} ids of these jobs or entries, the oldest first."
    )


class RetentionPreview(ApiModel):
    """What the rules of a project would delete now. A job may match several."""

    project: str
    items: list[RetentionMatch]
