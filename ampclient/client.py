"""`Client` and `AsyncClient`: the clients of an ampcore server."""

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack

from ampclient import _endpoints as endpoints
from ampclient._compare.comparison import Comparison
from ampclient._http.backend import AsyncHttpBackend, SyncHttpBackend
from ampclient._http.deprecation import warn_deprecated
from ampclient._http.operations import (
    Async,
    AsyncRaw,
    M,
    Operations,
    Sync,
    SyncRaw,
    operation,
    paginated,
)
from ampclient._http.options import ClientOptions, RequestOptions
from ampclient._http.pages import read_pages
from ampclient._http.transport import Transport
from ampclient._job.job import AsyncJob, Job
from ampclient._job.view import JobView
from ampclient._job.wait import J
from ampclient.access import People, Projects, Retention, Tokens
from ampclient.connection import Connection, resolve
from ampclient.datasets import Datasets
from ampclient.files import Files
from ampclient.jobs import Jobs
from ampclient.models import Models
from ampclient.notifications import Notifications
from ampclient.runs import Runs
from ampclient.studies import Studies
from ampclient.workers import Workers
from ampspec.api.audit import AuditEntry
from ampspec.api.catalog import Policy, SpecKind
from ampspec.api.service import ServerVersion
from ampspec.api.session import Session
from ampspec.old_names import old_attributes

if TYPE_CHECKING:
    import httpx

TIMEOUT_S = 30.0
"""Seconds without a byte from the server until a request fails."""


class BaseClient(Operations[M], Generic[M, J]):
    """The operations of every client, and of its `with_raw_response`."""

    def __init__(self, transport: Transport, mode: type[M]) -> None:
        self._connect(transport, mode)

    def _connect(self, transport: Transport, mode: type[Any]) -> None:
        self._transport, self._mode = transport, mode
        self.jobs: Jobs[M, J] = Jobs(transport, mode)
        self.studies: Studies[M] = Studies(transport, mode)
        self.runs: Runs[M, J] = Runs(transport, mode)
        self.datasets: Datasets[M] = Datasets(transport, mode)
        self.models: Models[M] = Models(transport, mode)
        self.files: Files[M] = Files(transport, mode)
        self.notifications: Notifications[M] = Notifications(transport, mode)
        self.workers: Workers[M] = Workers(transport, mode)
        self.tokens: Tokens[M] = Tokens(transport, mode)
        self.projects: Projects[M] = Projects(transport, mode)
        self.people: People[M] = People(transport, mode)
        self.retention: Retention[M] = Retention(transport, mode)

    @property
    def lab(self) -> Studies[M]:
        """The old name of `studies`."""
        warn_deprecated("client.lab is now client.studies.")
        return self.studies

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._transport.connection.url

    @operation
    async def model_kinds(self, **options: Unpack[RequestOptions]) -> list[SpecKind]:
        """The kinds of model that a spec can name."""
        return await self._transport.send(endpoints.list_kinds("models"), **options)

    @operation
    async def layers(self, **options: Unpack[RequestOptions]) -> list[SpecKind]:
        """The kinds of layer that `model: {kind: layers}` may list."""
        return await self._transport.send(endpoints.list_kinds("layers"), **options)

    @operation
    async def data_kinds(self, **options: Unpack[RequestOptions]) -> list[SpecKind]:
        """The kinds of data that a spec can name."""
        return await self._transport.send(endpoints.list_kinds("data-kinds"), **options)

    @operation
    async def losses(self, **options: Unpack[RequestOptions]) -> list[SpecKind]:
        """The losses that `task.loss` can name."""
        return await self._transport.send(endpoints.list_kinds("losses"), **options)

    @operation
    async def metrics(self, **options: Unpack[RequestOptions]) -> list[SpecKind]:
        """The metrics that `task.metrics` can name."""
        return await self._transport.send(endpoints.list_kinds("metrics"), **options)

    @operation
    async def optimizers(self, **options: Unpack[RequestOptions]) -> list[SpecKind]:
        """The kinds of optimizer that a spec can name."""
        return await self._transport.send(endpoints.list_kinds("optimizers"), **options)

    @operation
    async def policies(self, **options: Unpack[RequestOptions]) -> list[Policy]:
        """The precision policies that a spec can name."""
        return await self._transport.send(endpoints.list_policies(), **options)

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
        """2 to 100 jobs side by side: aligned series, and how their specs and results differ.

        `jobs` are ids or jobs. `speedup` and `loss_drift` are relative to `baseline`, by default
        the first job. `columns` selects the columns of the series. Each job has at most
        `max_points`, and all together at most 20,000. Raises NotFound.
        """
        ids = [endpoints.job_id_of(job) for job in jobs]
        request = endpoints.compare_jobs(
            ids,
            baseline=None if baseline is None else endpoints.job_id_of(baseline),
            columns=columns,
            max_points=max_points,
        )
        return await self._transport.send(request, **options)

    @operation
    async def session(self, **options: Unpack[RequestOptions]) -> Session:
        """The name, role and project of the token."""
        return await self._transport.send(endpoints.get_session(), **options)

    @paginated
    def audit(
        self,
        *,
        action: str | None = None,
        project: str | None = None,
        token_id: str | None = None,
        limit: int | None = None,
        **options: Unpack[RequestOptions],
    ) -> AsyncGenerator[AuditEntry, None]:
        """The audit log, newest first; for admins. `action` is for example "job.cancel"."""
        page_request = partial(
            endpoints.list_audit, action=action, project=project, token_id=token_id
        )
        return read_pages(self._transport, page_request, options, page_size=100, limit=limit)

    @operation
    async def version(self, **options: Unpack[RequestOptions]) -> ServerVersion:
        """The versions of the server and of its API."""
        return await self._transport.send(endpoints.get_version(), **options)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.url}>"


class ConnectedClient(BaseClient[M, J]):
    """A client that owns its connections."""

    @classmethod
    def from_file(cls, path: str | Path, **options: Any) -> Self:
        """A client of the server that wrote this connection file; `options` as of the class."""
        connection = Connection.from_file(path)
        url, token = connection.url, connection.token
        return cls(url, token, **options)  # type: ignore[arg-type]  # __init__ of Client

    def with_options(
        self,
        *,
        timeout_s: float | None = None,
        max_retries: int | None = None,
        default_headers: Mapping[str, str] | None = None,
    ) -> Self:
        """A client with other options, which shares the connections of this one.

        Args:
            timeout_s: Seconds without a byte from the server until a try fails.
            max_retries: How often a request is sent again at most.
            default_headers: Headers to send besides those of this client.
        """
        options = self._transport.options
        changes: dict[str, Any] = {"timeout_s": timeout_s, "max_retries": max_retries}
        changed = {name: value for name, value in changes.items() if value is not None}
        headers = {**options.default_headers, **(default_headers or {})}
        transport = self._transport.with_options(
            replace(options, **changed, default_headers=headers)
        )
        client = copy(self)
        client._connect(transport, self._mode)
        return client

    @operation
    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()


class Client(ConnectedClient[Sync, Job]):
    """A client of the server at `url`; also a context manager.

    By default the address and the token come from AMPCORE_URL and AMPCORE_TOKEN, else from the
    connection file that `ampserver up` writes (AMPCORE_CONNECTION, else connection.json in
    AMPCORE_DATA_DIR, else ./ampcore-data/connection.json), else from `ampctl login`.

    Args:
        url: The address of the server.
        token: The access token.
        timeout_s: Seconds without a byte from the server until a try fails.
        max_retries: How often a request is sent again at most, where that is safe. None: as often
            as fits into 5 s, or into a minute while a job or a transfer is followed.
        default_headers: Headers of every request. They cannot replace `Authorization`.
        http_client: Replaces the HTTP client, for special proxies, certificates or tests.

    Raises:
        NotConfigured: There is no address, or no token.
    """

    _mode = Sync

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        max_retries: int | None = None,
        default_headers: Mapping[str, str] | None = None,
        http_client: "httpx.Client | None" = None,
    ) -> None:
        connection = resolve(url, token, os.environ)
        options = ClientOptions(max_retries=max_retries, default_headers=default_headers or {})
        backend = SyncHttpBackend(connection, timeout_s, http_client)
        super().__init__(Transport(connection, backend, options), Sync)

    @property
    def with_raw_response(self) -> BaseClient[SyncRaw, Job]:
        """The same operations; each returns its HTTP response, too."""
        return BaseClient(self._transport, SyncRaw)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class AsyncClient(ConnectedClient[Async, AsyncJob]):
    """The same as Client for asyncio: `async with AsyncClient() as client`.

    Operations are awaited, and iterators are used with `async for`; the same holds for its jobs.
    Ctrl-C or a cancelled task does not cancel a job.
    """

    _mode = Async

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        max_retries: int | None = None,
        default_headers: Mapping[str, str] | None = None,
        http_client: "httpx.AsyncClient | None" = None,
    ) -> None:
        connection = resolve(url, token, os.environ)
        options = ClientOptions(max_retries=max_retries, default_headers=default_headers or {})
        backend = AsyncHttpBackend(connection, timeout_s, http_client)
        super().__init__(Transport(connection, backend, options), Async)

    @property
    def with_raw_response(self) -> BaseClient[AsyncRaw, AsyncJob]:
        """The same operations; each returns its HTTP response, too."""
        return BaseClient(self._transport, AsyncRaw)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()


if not TYPE_CHECKING:
    __getattr__ = old_attributes(
        __name__, {"RawClient": "BaseClient", "AsyncRawClient": "BaseClient"}
    )
