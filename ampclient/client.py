"""The entrance: a client of one ampcore server."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ampclient import calls
from ampclient.connection import Connection, resolve
from ampclient.jobs import Jobs
from ampclient.transport import Transport
from ampclient.views import Kind, Policy, ServerVersion, Worker

if TYPE_CHECKING:
    import httpx


class Workers:
    """The workers of a server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> list[Worker]:
        """Every worker that the server knows, online or not."""
        return self._transport.send(calls.list_workers())


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

    def policies(self) -> list[Policy]:
        """The precision policies that a spec can name."""
        return self._transport.send(calls.list_policies())

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
