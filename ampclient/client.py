"""The entrance: a client of one ampcore server, for plain code and for code that awaits."""

import os
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ampclient import calls
from ampclient.access import AsyncProjects, AsyncTokens, Projects, Tokens
from ampclient.connection import Connection, resolve
from ampclient.faces import Async, Sync, listing, operation
from ampclient.jobs import AsyncJobs, Jobs
from ampclient.transport import Transport
from ampclient.views import (
    AuditEntry,
    Comparison,
    JobView,
    Kind,
    Policy,
    ServerVersion,
    Session,
)
from ampclient.wire import AsyncWire, SyncWire
from ampclient.workers import AsyncWorkers, Workers

if TYPE_CHECKING:
    import httpx

TIMEOUT_S = 30.0
"""How long a silent server is waited for."""


class AnyClient:
    """What both clients can do."""

    _transport: Transport

    @classmethod
    def from_file(
        cls, path: str | Path, *, timeout_s: float = TIMEOUT_S, http_client: Any = None
    ) -> Self:
        """A client of the server that wrote this connection file."""
        to = Connection.from_file(path)
        options: dict[str, Any] = {"timeout_s": timeout_s, "http_client": http_client}
        return cls(to.url, to.token, **options)  # type: ignore[call-arg]  # the faces' own

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._transport.connection.url

    @operation
    async def models(self) -> list[Kind]:
        """The kinds of model that a spec can name."""
        return await self._transport.send(calls.list_models())

    @operation
    async def datasets(self) -> list[Kind]:
        """The kinds of data that a spec can name."""
        return await self._transport.send(calls.list_datasets())

    @operation
    async def optimizers(self) -> list[Kind]:
        """The kinds of optimizer that a spec can name."""
        return await self._transport.send(calls.list_optimizers())

    @operation
    async def policies(self) -> list[Policy]:
        """The precision policies that a spec can name."""
        return await self._transport.send(calls.list_policies())

    @operation
    async def compare(
        self,
        jobs: Sequence[str | JobView],
        *,
        baseline: str | JobView | None = None,
        columns: Sequence[str] | None = None,
        max_points: int = 500,
    ) -> Comparison:
        """2 to 10 jobs side by side: aligned series, and how their specs and results differ.

        `jobs` are ids or jobs. Speed-up and drift are measured against `baseline`, one of them;
        left out, against the first. `columns` are those of the series. Raises NotFound.
        """
        ids = [calls.job_id_of(job) for job in jobs]
        call = calls.compare_jobs(
            ids,
            baseline=None if baseline is None else calls.job_id_of(baseline),
            columns=columns,
            max_points=max_points,
        )
        return await self._transport.send(call)

    @operation
    async def session(self) -> Session:
        """Who the server takes the token's bearer for: name, role, project."""
        return await self._transport.send(calls.get_session())

    @listing
    async def audit(
        self,
        *,
        action: str | None = None,
        project: str | None = None,
        token_id: str | None = None,
    ) -> AsyncGenerator[AuditEntry, None]:
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
            page = await self._transport.send(call)
            for entry in page.entries:
                yield entry
            cursor = page.next_cursor
            if cursor is None:
                return

    @operation
    async def version(self) -> ServerVersion:
        """What runs on the server."""
        return await self._transport.send(calls.get_version())

    @operation
    async def close(self) -> None:
        """Close the connections that are kept open."""
        await self._transport.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.url}>"


class Client(Sync, AnyClient):
    """A client of the server at `url`; may be used as a context manager.

    Left out, the address and the token come from AMPCORE_URL and AMPCORE_TOKEN, else from the
    connection file that `ampserver up` writes (AMPCORE_CONNECTION, else connection.json in
    AMPCORE_DATA_DIR, else ./ampcore-data/connection.json), else from `ampctl login`. `http_client`
    replaces the HTTP client, for special proxies, certificates or tests. Raises NotConfigured.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        http_client: "httpx.Client | None" = None,
    ) -> None:
        connection = resolve(url, token, os.environ)
        self._transport = Transport(connection, SyncWire(connection, timeout_s, http_client))
        self.jobs = Jobs(self._transport)
        self.workers = Workers(self._transport)
        self.tokens = Tokens(self._transport)
        self.projects = Projects(self._transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class AsyncClient(Async, AnyClient):
    """The same as Client for code that awaits: `async with AsyncClient() as client`.

    What `Client` answers is awaited here, what it iterates is iterated with `async for`, and its
    jobs do as it does. It runs on asyncio; Ctrl-C or a cancelled task ends no job.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        http_client: "httpx.AsyncClient | None" = None,
    ) -> None:
        connection = resolve(url, token, os.environ)
        self._transport = Transport(connection, AsyncWire(connection, timeout_s, http_client))
        self.jobs = AsyncJobs(self._transport)
        self.workers = AsyncWorkers(self._transport)
        self.tokens = AsyncTokens(self._transport)
        self.projects = AsyncProjects(self._transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()
