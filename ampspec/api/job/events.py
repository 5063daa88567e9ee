"""The event log of a job."""

from datetime import datetime

from ampspec.api.base import ApiModel, JsonObject, StoredModel


class JobEvent(StoredModel):
    """An entry of a job's event log."""

    seq: int
    type: str
    step: int | None
    attempt: int
    created_at: datetime
    data: JsonObject


class EventPage(ApiModel):
    """A page of events in order.

    For later events pass `after` = `next`; for earlier ones `before` = the first entry's `seq`.
    """

    items: list[JobEvent]
    next: int
    more: bool
