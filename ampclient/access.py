"""`client.tokens` and `client.projects`: who may use the server, and how much of it. For admins."""

from datetime import datetime

from ampclient import calls
from ampclient.transport import Transport
from ampclient.views import NewToken, Project, Token


class Tokens:
    """The ways in."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> list[Token]:
        """Every token, also those that are revoked or have expired."""
        return self._transport.send(calls.list_tokens())

    def create(
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
        return self._transport.send(calls.create_token(given))

    def revoke(self, token_id: str) -> None:
        """Take a token's power away, at once and for good. Raises NotFound."""
        self._transport.send(calls.revoke_token(token_id))


class Projects:
    """Whose jobs they are."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> list[Project]:
        """Every project with its quotas."""
        return self._transport.send(calls.list_projects())

    def update(self, name: str, *, max_queued: int | None, max_running: int | None) -> Project:
        """Set how many jobs of a project may wait and run at one time; None: no limit.

        A project that does not exist is made.
        """
        quotas = {"max_queued": max_queued, "max_running": max_running}
        return self._transport.send(calls.put_project(name, quotas))
