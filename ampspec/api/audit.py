"""The audit log."""

from datetime import datetime

from pydantic import Field

from ampspec.api.base import ApiModel, JsonObject, StoredModel


class AuditEntry(StoredModel):
    """A change made by a request."""

    id: int
    at: datetime
    action: str = Field(description="For example `job.cancel` or `token.create`.")
    target: str | None = Field(description="The id or name of the changed object.")
    project: str | None = Field(description="The project of the changed object.")
    token_id: str | None
    token_name: str | None
    address: str | None = Field(description="The client's address.")
    request_id: str | None
    data: JsonObject | None


class AuditPage(ApiModel):
    """A page of entries, newest first; `next_cursor` is the cursor of older ones."""

    items: list[AuditEntry]
    next_cursor: str | None
