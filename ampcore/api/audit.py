"""The audit log."""

from datetime import datetime

from pydantic import Field

from ampcore.api.base import ApiModel, JsonObject, StoredModel


class AuditEntry(StoredModel):
    """A change that a request made."""

    id: int
    at: datetime
    action: str = Field(description="As in `job.cancel` and `token.create`.")
    target: str | None = Field(description="The id or the name of what was changed.")
    project: str | None = Field(description="The project that it belongs to.")
    token_id: str | None
    token_name: str | None
    address: str | None = Field(description="The client's, as the server saw it.")
    request_id: str | None
    data: JsonObject | None


class AuditPage(ApiModel):
    """Some entries, the newest first; `next_cursor` leads to older ones."""

    items: list[AuditEntry]
    next_cursor: str | None
