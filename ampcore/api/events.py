"""The event log of a job."""

from datetime import datetime

from ampcore.api.base import ApiModel, JsonObject, StoredModel


class JobEvent(StoredModel):
    """An entry of a job's event log."""

    seq: int
    type: str
    step: int | None
    attempt: int
    created_at: datetime
    data: JsonObject


class EventPage(ApiModel):
    """Some events in order.

    To continue, pass `after` = `next`; to read back, `before` = the first entry's `seq`.
    """

    items: list[JobEvent]
    next: int
    more: bool
