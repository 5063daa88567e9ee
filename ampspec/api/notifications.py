"""Subscriptions to notifications, and the deliveries of messages."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    Field,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from ampspec.api.base import ApiModel, RequestModel, StoredModel, open_enum
from ampspec.notifications.types import DEFAULT_TYPES, ENDS, PATTERNS

MAX_TARGET = 2000
CHANNELS = ("webhook", "service", "email")
DELIVERY_STATES = ("pending", "delivered", "failed")


def _check_pattern(name: Any) -> Any:
    if name not in PATTERNS:
        raise PydanticCustomError("unknown_type", f"one of {', '.join(PATTERNS)}")
    return name


Pattern = Annotated[
    str,
    BeforeValidator(_check_pattern),
    WithJsonSchema({"type": "string", "enum": list(map(str, PATTERNS))}),
]
Patterns = Annotated[list[Pattern], Field(min_length=1, max_length=len(PATTERNS))]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
JobId = Annotated[str, Field(pattern="^[0-9a-f]{12}$")]


class SubscriptionRequest(RequestModel):
    """The request to send messages to a receiver."""

    target: Annotated[str, Field(min_length=1, max_length=MAX_TARGET)] = Field(
        description="`https://…` for signed webhooks, `mailto:NAME@HOST`, or the address of a "
        "service as apprise defines it, such as `slack://…`."
    )
    name: Name | None = Field(None, description="By default made of the address.")
    types: Patterns | None = Field(
        None,
        description="Types such as `job.failed`, and groups such as `job.*`; by default the ends "
        "of jobs and studies, and of one job its end.",
    )
    job_id: JobId | None = Field(
        None, description="Only this job; the subscription is completed by the end of the job."
    )

    @property
    def chosen_types(self) -> list[str]:
        """The types that are requested, or the default ones."""
        default = ENDS if self.job_id is not None else DEFAULT_TYPES
        return list(self.types) if self.types is not None else [str(name) for name in default]

    @model_validator(mode="after")
    def _check_types_of_job(self) -> "SubscriptionRequest":
        groups = {pattern.partition(".")[0] for pattern in self.types or ()}
        if self.job_id is not None and groups - {"job", "guard", "diagnosis"}:
            raise PydanticCustomError(
                "types_of_job", "types of the groups job, guard and diagnosis, with job_id"
            )
        return self


class SubscriptionChanges(RequestModel):
    """What to change of a subscription; what is left out stays."""

    name: Name | None = None
    types: Patterns | None = None
    enabled: bool | None = Field(
        None, description="false: send nothing; true: send again, also after it was disabled."
    )


class Subscription(StoredModel):
    """A receiver of messages; without the secret, which is shown once."""

    id: str
    project: str
    name: str
    channel: Annotated[str, open_enum(*CHANNELS)]
    target: str = Field(
        description="The address; of a service only its scheme, which is no secret."
    )
    types: list[str]
    job_id: str | None
    created_by: str | None = Field(description="The name of the token that created it.")
    created_at: datetime
    updated_at: datetime
    failing_since: datetime | None = Field(
        description="When the first of the tries failed since the last one that succeeded."
    )
    disabled_at: datetime | None
    disabled_reason: str | None
    completed_at: datetime | None = Field(description="When its job had ended.")
    previous_secret_until: datetime | None = Field(
        description="Until when messages are signed with the previous secret, too."
    )


class SubscriptionWithSecret(Subscription):
    """A subscription with its new secret."""

    secret: str | None = Field(
        repr=False,
        description="What webhooks are signed with; shown only in this response. null: the channel "
        "has no signatures.",
    )


class SubscriptionPage(ApiModel):
    """Subscriptions, newest first. `next_cursor` is the cursor of the next page."""

    items: list[Subscription]
    next_cursor: str | None = None


class Delivery(StoredModel):
    """A message to a receiver, and how the last try to send it ended."""

    id: str = Field(description="The header `webhook-id` is `msg_` and this id.")
    type: str
    state: Annotated[str, open_enum(*DELIVERY_STATES)]
    attempts: int = Field(description="The number of tries.")
    due_at: datetime = Field(description="When the next try is due, while it is pending.")
    attempted_at: datetime | None
    duration_s: float | None
    status_code: int | None
    error: str | None
    response: str | None = Field(description="The start of the last response.")
    created_at: datetime
    finished_at: datetime | None
    body: str = Field(description="The JSON document that is sent.")


class DeliveryPage(ApiModel):
    """Deliveries, newest first. `next_cursor` is the cursor of the next page."""

    items: list[Delivery]
    next_cursor: str | None = None


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:  # the first or the last day of the calendar
        raise PydanticCustomError("out_of_range", "a time that exists in UTC") from None


class ResendRequest(RequestModel):
    """Which messages to send again."""

    since: Annotated[AwareDatetime, AfterValidator(_in_utc)] = Field(
        description="Those that were written since then and have failed."
    )


class Resent(ApiModel):
    """How many messages are sent again."""

    count: int


DeliveryState = Literal["pending", "delivered", "failed"]
