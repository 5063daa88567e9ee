"""The output of a job's processes."""

from datetime import datetime

from pydantic import Field

from ampspec.api.base import ApiModel, StoredModel


class LogEntry(StoredModel):
    """A piece of the output of a job's processes."""

    seq: int
    attempt: int
    stream: str = Field(description="stdout or stderr.")
    text: str
    created_at: datetime


class LogPage(ApiModel):
    """A page of entries in order.

    For later entries pass `after` = `next`; for earlier ones `before` = the first entry's `seq`.
    """

    items: list[LogEntry]
    next: int
    more: bool
