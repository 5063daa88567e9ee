"""The entrance: a client of one ampcore server."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ampclient import calls
from ampclient.access import Projects, Tokens
from ampclient.connection import Connection, resolve
from ampclient.jobs import Jobs
from ampclient.transport import Transport
from ampclient.views import AuditEntry, Kind, Policy, ServerVersion, Session
from ampclient.workers import Workers

if TYPE_CHECKING:
    import httpx


class Client:
    """A client of the server at `url`; may be used as a context manager.

    Left out, the address and the token come from AMPCORE_URL and AMPCORE_TOKEN, else from the
    connection file that `ampserver up` writes (AMPCORE_CONNECTION, else connection.json in
    AMPCORE_DATA_DIR, else ./ampcore-data/connection.json). `http_client` replaces the HTTP
    client, for special proxies, certificates or tests. Raises NotConfigured.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
        http_client: "httpx.Client | None" = None,
    ) -> None:
        connection = resolve(url, token, os.environ)
        self._transport = Transport(connection, timeout_s=timeout_s, http_client=http_client)
        self.jobs = Jobs(self._transport)
        self.workers = Workers(self._transport)
        self.tokens = Tokens(self._transport)
        self.projects = Projects(self._transport)

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        timeout_s: float = 30.0,
        http_client: "httpx.Client | None" = None,
    ) -> Self:
        """A client of the server that wrote this connection file."""
        connection = Connection.from_file(path)
        return cls(connection.url, connection.token, timeout_s=timeout_s, http_client=http_client)

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._transport.connection.url

    def models(self) -> list[Kind]:
        """The kinds of model that a spec can name."""
        return self._transport.send(calls.list_models())

    def datasets(self) -> list[Kind]:
        """The kinds of data that a spec can name."""
        return self._transport.send(calls.list_datasets())

    def optimizers(self) -> list[Kind]:
        """The kinds of optimizer that a spec can name."""
        return self._transport.send(calls.list_optimizers())

    def policies(self) -> list[Policy]:
        """The precision policies that a spec can name."""
        return self._transport.send(calls.list_policies())

    def session(self) -> Session:
        """Who the server takes the token's bearer for: name, role, project."""
        return self._transport.send(calls.get_session())

    def audit(
        self,
        *,
        action: str | None = None,
        project: str | None = None,
        token_id: str | None = None,
    ) -> Iterator[AuditEntry]:
        """Who did what, newest first; for admins. `action` is such as "job.cancel".

        Lazy, as `client.jobs.list` is: each page is asked for when it is needed.
        """
        cursor = None
        while True:
            call = calls.list_audit(
                action=action,
                project=project,
                token_id=token_id,
                limit=calls.AUDIT_PER_PAGE,
                cursor=cursor,
            )
            page = self._transport.send(call)
            yield from page.entries
            cursor = page.next_cursor
            if cursor is None:
                return

    def version(self) -> ServerVersion:
        """What runs on the server."""
        return self._transport.send(calls.get_version())

    def close(self) -> None:
        """Close the connections that are kept open."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client of {self.url}>"
