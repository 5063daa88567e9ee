"""The version and the health of the server."""

from typing import Literal

from pydantic import Field

from ampspec.api.base import ApiModel


class ServerVersion(ApiModel):
    """The versions of the server, its API and its database schema."""

    version: str
    api: str
    schema_revision: str | None = Field(
        alias="schema", description="Revision of the database schema."
    )


class Health(ApiModel):
    """The status of the server: alive or ready."""

    status: Literal["alive", "ready"]
