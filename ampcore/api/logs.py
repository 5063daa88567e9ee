"""The output of a job's processes."""

from datetime import datetime

from pydantic import Field

from ampcore.api.base import ApiModel, StoredModel


class LogEntry(StoredModel):
    """A piece of what a job's processes printed."""

    seq: int
    attempt: int
    stream: str = Field(description="stdout or stderr.")
    text: str
    created_at: datetime


class LogPage(ApiModel):
    """Some entries in order.

    To continue, pass `after` = `next`; to read back, `before` = the first entry's `seq`.
    """

    items: list[LogEntry]
    next: int
    more: bool
