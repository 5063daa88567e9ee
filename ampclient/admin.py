"""`client.tokens` and `client.projects`: who may use the server, and how much of it. For admins."""

from datetime import datetime
from typing import Unpack

from ampclient import requests
from ampclient._request_options import RequestOptions
from ampclient._sync_async import Async, AsyncRaw, Sync, SyncRaw, operation
from ampclient._transport import Transport
from ampcore.api.projects import Project
from ampcore.api.tokens import CreatedToken, Token


class BaseTokens:
    """The ways in."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @operation
    async def list(self, **options: Unpack[RequestOptions]) -> list[Token]:
        """Every token, also those that are revoked or have expired."""
        return await self._transport.send(requests.list_tokens(), **options)

    @operation
    async def create(
        self,
        name: str,
        *,
        role: str = "member",
        project: str = "default",
        expires_at: datetime | None = None,
        **options: Unpack[RequestOptions],
    ) -> CreatedToken:
        """Make a token; its `secret` is told this once only.

        An admin may do everything everywhere, a member submits and steers the jobs of its
        project, a viewer reads them. A project that does not exist is made.
        """
        given = {"name": name, "role": role, "project": project}
        if expires_at is not None:
            given["expires_at"] = expires_at.astimezone().isoformat()
        return await self._transport.send(requests.create_token(given), **options)

    @operation
    async def revoke(self, token_id: str, **options: Unpack[RequestOptions]) -> None:
        """Take a token's power away, at once and for good. Raises NotFound."""
        await self._transport.send(requests.revoke_token(token_id), **options)


class Tokens(Sync, BaseTokens):
    """The ways in."""


class AsyncTokens(Async, BaseTokens):
    """The ways in."""


class RawTokens(SyncRaw, BaseTokens):
    """The same with the HTTP responses."""


class AsyncRawTokens(AsyncRaw, BaseTokens):
    """The same with the HTTP responses, for code that awaits."""


class BaseProjects:
    """Whose jobs they are."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @operation
    async def list(self, **options: Unpack[RequestOptions]) -> list[Project]:
        """Every project with its quotas."""
        return await self._transport.send(requests.list_projects(), **options)

    @operation
    async def update(
        self,
        name: str,
        *,
        max_queued: int | None,
        max_running: int | None,
        **options: Unpack[RequestOptions],
    ) -> Project:
        """Set how many jobs of a project may wait and run at one time; None: no limit.

        A project that does not exist is made.
        """
        quotas = {"max_queued": max_queued, "max_running": max_running}
        return await self._transport.send(requests.put_project(name, quotas), **options)


class Projects(Sync, BaseProjects):
    """Whose jobs they are."""


class AsyncProjects(Async, BaseProjects):
    """Whose jobs they are."""


class RawProjects(SyncRaw, BaseProjects):
    """The same with the HTTP responses."""


class AsyncRawProjects(AsyncRaw, BaseProjects):
    """The same with the HTTP responses, for code that awaits."""
