"""`client.tokens` and `client.projects`: who may use the server, and how much of it. For admins."""

from datetime import datetime

from ampclient import calls
from ampclient.faces import Async, Sync, operation
from ampclient.transport import Transport
from ampclient.views import NewToken, Project, Token


class AnyTokens:
    """The ways in."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @operation
    async def list(self) -> list[Token]:
        """Every token, also those that are revoked or have expired."""
        return await self._transport.send(calls.list_tokens())

    @operation
    async def create(
        self,
        name: str,
        *,
        role: str = "member",
        project: str = "default",
        expires_at: datetime | None = None,
    ) -> NewToken:
        """Make a token; its `secret` is told this once only.

        An admin may do everything everywhere, a member submits and steers the jobs of its
        project, a viewer reads them. A project that does not exist is made.
        """
        given = {"name": name, "role": role, "project": project}
        if expires_at is not None:
            given["expires_at"] = expires_at.astimezone().isoformat()
        return await self._transport.send(calls.create_token(given))

    @operation
    async def revoke(self, token_id: str) -> None:
        """Take a token's power away, at once and for good. Raises NotFound."""
        await self._transport.send(calls.revoke_token(token_id))


class Tokens(Sync, AnyTokens):
    """The ways in."""


class AsyncTokens(Async, AnyTokens):
    """The ways in."""


class AnyProjects:
    """Whose jobs they are."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @operation
    async def list(self) -> list[Project]:
        """Every project with its quotas."""
        return await self._transport.send(calls.list_projects())

    @operation
    async def update(
        self, name: str, *, max_queued: int | None, max_running: int | None
    ) -> Project:
        """Set how many jobs of a project may wait and run at one time; None: no limit.

        A project that does not exist is made.
        """
        quotas = {"max_queued": max_queued, "max_running": max_running}
        return await self._transport.send(calls.put_project(name, quotas))


class Projects(Sync, AnyProjects):
    """Whose jobs they are."""


class AsyncProjects(Async, AnyProjects):
    """Whose jobs they are."""
