"""`Client` and `AsyncClient`: the clients of an ampcore server."""

import os
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from ampclient import requests
from ampclient._http_backend import AsyncHttpBackend, SyncHttpBackend
from ampclient._request_options import RequestOptions
from ampclient._sync_async import Async, AsyncRaw, Sync, SyncRaw, operation, paginated
from ampclient._transport import Transport
from ampclient.admin import (
    AsyncProjects,
    AsyncRawProjects,
    AsyncRawTokens,
    AsyncTokens,
    Projects,
    RawProjects,
    RawTokens,
    Tokens,
)
from ampclient.comparison import Comparison
from ampclient.connection import Connection, resolve
from ampclient.datasets import AsyncDatasets, AsyncRawDatasets, Datasets, RawDatasets
from ampclient.files import AsyncFiles, AsyncRawFiles, Files, RawFiles
from ampclient.job_view import JobView
from ampclient.jobs import AsyncJobs, AsyncRawJobs, Jobs, RawJobs
from ampclient.lab import AsyncLab, AsyncRawLab, Lab, RawLab
from ampclient.runs import AsyncRawRuns, AsyncRuns, RawRuns, Runs
from ampclient.workers import AsyncRawWorkers, AsyncWorkers, RawWorkers, Workers
from ampspec.api.audit import AuditEntry
from ampspec.api.catalog import Policy, SpecKind
from ampspec.api.service import ServerVersion
from ampspec.api.session import Session

if TYPE_CHECKING:
    import httpx

TIMEOUT_S = 30.0
"""Seconds without a byte from the server until a request fails."""


class BaseClient:
    """The operations of every client."""

    _transport: Transport

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._transport.connection.url

    @operation
    async def models(self, **options: Unpack[RequestOptions]) -> list[SpecKind]:
        """The kinds of model that a spec can name."""
        return await self._transport.send(requests.list_kinds("models"), **options)

    @operation
    async def layers(self, **options: Unpack[RequestOptions]) -> list[SpecKind]:
        """The kinds of layer that `model: {kind: layers}` may list."""
        return await self._transport.send(requests.list_kinds("layers"), **options)

    @operation
    async def data_kinds(self, **options: Unpack[RequestOptions]) -> list[SpecKind]:
        """The kinds of data that a spec can name."""
        return await self._transport.send(requests.list_kinds("data-kinds"), **options)

    @operation
    async def losses(self, **options: Unpack[RequestOptions]) -> list[SpecKind]:
        """The losses that `task.loss` can name."""
        return await self._transport.send(requests.list_kinds("losses"), **options)

    @operation
    async def metrics(self, **options: Unpack[RequestOptions]) -> list[SpecKind]:
        """The metrics that `task.metrics` can name."""
        return await self._transport.send(requests.list_kinds("metrics"), **options)

    @operation
    async def optimizers(self, **options: Unpack[RequestOptions]) -> list[SpecKind]:
        """The kinds of optimizer that a spec can name."""
        return await self._transport.send(requests.list_kinds("optimizers"), **options)

    @operation
    async def policies(self, **options: Unpack[RequestOptions]) -> list[Policy]:
        """The precision policies that a spec can name."""
        return await self._transport.send(requests.list_policies(), **options)

    @operation
    async def compare(
        self,
        jobs: Sequence[str | JobView],
        *,
        baseline: str | JobView | None = None,
        columns: Sequence[str] | None = None,
        max_points: int = 500,
        **options: Unpack[RequestOptions],
    ) -> Comparison:
        """2 to 10 jobs side by side: aligned series, and how their specs and results differ.

        `jobs` are ids or jobs. `speedup` and `loss_drift` are relative to `baseline`, by default
        the first job. `columns` selects the columns of the series. Raises NotFound.
        """
        ids = [requests.job_id_of(job) for job in jobs]
        request = requests.compare_jobs(
            ids,
            baseline=None if baseline is None else requests.job_id_of(baseline),
            columns=columns,
            max_points=max_points,
        )
        return await self._transport.send(request, **options)

    @operation
    async def session(self, **options: Unpack[RequestOptions]) -> Session:
        """The name, role and project of the token."""
        return await self._transport.send(requests.get_session(), **options)

    @paginated
    async def audit(
        self,
        *,
        action: str | None = None,
        project: str | None = None,
        token_id: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> AsyncGenerator[AuditEntry, None]:
        """The audit log, newest first; for admins. `action` is for example "job.cancel".

        Lazy, as `client.jobs.list` is: each page is requested when it is needed.
        """
        cursor = None
        while True:
            request = requests.list_audit(
                action=action,
                project=project,
                token_id=token_id,
                limit=requests.AUDIT_PER_PAGE,
                cursor=cursor,
            )
            page = await self._transport.send(request, **options)
            for entry in page.items:
                yield entry
            cursor = page.next_cursor
            if cursor is None:
                return

    @operation
    async def version(self, **options: Unpack[RequestOptions]) -> ServerVersion:
        """The versions of the server and of its API."""
        return await self._transport.send(requests.get_version(), **options)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.url}>"


class ConnectedClient(BaseClient):
    """A client that owns its connections."""

    @classmethod
    def from_file(
        cls, path: str | Path, *, timeout_s: float = TIMEOUT_S, http_client: Any = None
    ) -> Self:
        """A client of the server that wrote this connection file."""
        to = Connection.from_file(path)
        options: dict[str, Any] = {"timeout_s": timeout_s, "http_client": http_client}
        return cls(to.url, to.token, **options)  # type: ignore[call-arg]  # __init__ of Client and AsyncClient

    @operation
    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()


class RawClient(SyncRaw, BaseClient):
    """`client.with_raw_response`: the same operations, each with its HTTP response."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.jobs = RawJobs(transport)
        self.lab = RawLab(transport)
        self.runs = RawRuns(transport)
        self.workers = RawWorkers(transport)
        self.tokens = RawTokens(transport)
        self.projects = RawProjects(transport)
        self.datasets = RawDatasets(transport)
        self.files = RawFiles(transport)


class AsyncRawClient(AsyncRaw, BaseClient):
    """`AsyncClient.with_raw_response`: the same operations, each with its HTTP response."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.jobs = AsyncRawJobs(transport)
        self.lab = AsyncRawLab(transport)
        self.runs = AsyncRawRuns(transport)
        self.workers = AsyncRawWorkers(transport)
        self.tokens = AsyncRawTokens(transport)
        self.projects = AsyncRawProjects(transport)
        self.datasets = AsyncRawDatasets(transport)
        self.files = AsyncRawFiles(transport)


class Client(Sync, ConnectedClient):
    """A client of the server at `url`; also a context manager.

    By default the address and the token come from AMPCORE_URL and AMPCORE_TOKEN, else from the
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
        self._transport = Transport(connection, SyncHttpBackend(connection, timeout_s, http_client))
        self.jobs = Jobs(self._transport)
        self.lab = Lab(self._transport)
        self.runs = Runs(self._transport)
        self.workers = Workers(self._transport)
        self.tokens = Tokens(self._transport)
        self.projects = Projects(self._transport)
        self.datasets = Datasets(self._transport)
        self.files = Files(self._transport)
        self.with_raw_response = RawClient(self._transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class AsyncClient(Async, ConnectedClient):
    """The same as Client for asyncio: `async with AsyncClient() as client`.

    Operations are awaited, and iterators are used with `async for`; the same holds for its jobs.
    Ctrl-C or a cancelled task does not cancel a job.
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
        self._transport = Transport(
            connection, AsyncHttpBackend(connection, timeout_s, http_client)
        )
        self.jobs = AsyncJobs(self._transport)
        self.lab = AsyncLab(self._transport)
        self.runs = AsyncRuns(self._transport)
        self.workers = AsyncWorkers(self._transport)
        self.tokens = AsyncTokens(self._transport)
        self.projects = AsyncProjects(self._transport)
        self.datasets = AsyncDatasets(self._transport)
        self.files = AsyncFiles(self._transport)
        self.with_raw_response = AsyncRawClient(self._transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()
