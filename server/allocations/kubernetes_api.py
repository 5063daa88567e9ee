"""Requests to the API of a Kubernetes cluster: create, list, read and delete objects.

An answer that says nothing of the request itself is BatchSystemUnavailable: nothing is known then.
"""

import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from server.allocations.batch_system import BatchSystemUnavailable
from server.allocations.kubernetes_credentials import Cluster, CredentialsInvalid

TIMEOUT_S: Final = 30.0
PAGE: Final = 500
"""How many objects a response lists."""
MAX_RETRY_AFTER_S: Final = 300.0
MAX_MESSAGE: Final = 1000

Object = dict[str, Any]
"""An object of Kubernetes as JSON."""


@dataclass(frozen=True)
class Resource:
    """A kind of objects.

    Args:
        prefix: Of the path, with the version of the API.
        plural: The name of the kind in paths.
    """

    prefix: str
    plural: str


class ApiError(Exception):
    """The API refuses a request; the message is its own.

    Args:
        status_code: Of the response.
        reason: A word such as `AlreadyExists`.
        message: A sentence.
    """

    def __init__(self, status_code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status_code, self.reason = status_code, reason


class KubernetesApi:
    """The API of a cluster.

    Args:
        find_cluster: Says how the API is reached; it is asked again after a failed connection,
            since certificates are replaced.
        namespace: Of all objects; None: the one that belongs to the credentials.
        timeout_s: How long a response may take.
    """

    def __init__(
        self,
        find_cluster: Callable[[], Cluster],
        namespace: str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._find_cluster, self._namespace = find_cluster, namespace or ""
        self._timeout_s = timeout_s
        self._client: httpx.Client | None = None
        self._server = ""
        self._silent_until = 0.0

    @property
    def namespace(self) -> str:
        """The namespace of all objects. Raises BatchSystemUnavailable."""
        self._connected()
        return self._namespace

    def create(self, resource: Resource, manifest: Object) -> Object:
        """Create an object. Raises ApiError, with the reason AlreadyExists if there is one."""
        return self._send("POST", self._path(resource), json=manifest)

    def read(self, resource: Resource, name: str) -> Object:
        """The object of this name. Raises ApiError."""
        return self._send("GET", f"{self._path(resource)}/{name}")

    def delete(self, resource: Resource, name: str) -> None:
        """Delete an object once its pods have ended. Raises ApiError."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"}
        self._send("DELETE", f"{self._path(resource)}/{name}", json=options)

    def list_objects(
        self, resource: Resource, *, labels: str | None = None, fields: str | None = None
    ) -> list[Object]:
        """All objects with these labels and fields. Raises ApiError."""
        try:
            return list(self._pages(resource, labels, fields))
        except ApiError as error:
            if error.status_code != httpx.codes.GONE:
                raise
        # The list has changed too much between two pages: begin again.
        return list(self._pages(resource, labels, fields))

    def versions(self, group: str) -> list[str]:
        """The versions of a group of the API, the preferred one first. Raises ApiError."""
        document = self._send("GET", f"/apis/{group}")
        preferred = document["preferredVersion"]["version"]
        versions = [entry["version"] for entry in document["versions"]]
        return sorted(versions, key=lambda version: version != preferred)

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _path(self, resource: Resource) -> str:
        return f"{resource.prefix}/namespaces/{self.namespace}/{resource.plural}"

    def _pages(
        self, resource: Resource, labels: str | None, fields: str | None
    ) -> Iterator[Object]:
        query = {"labelSelector": labels, "fieldSelector": fields, "limit": str(PAGE)}
        parameters = {key: value for key, value in query.items() if value is not None}
        while True:
            page = self._send("GET", self._path(resource), params=parameters)
            yield from page.get("items") or []
            token = page.get("metadata", {}).get("continue")
            if not token:
                return
            parameters["continue"] = token

    def _connected(self) -> httpx.Client:
        if self._client is None:
            try:
                cluster = self._find_cluster()
            except CredentialsInvalid as error:
                raise BatchSystemUnavailable(str(error)) from error
            self._server = cluster.server
            self._namespace = self._namespace or cluster.namespace
            self._client = httpx.Client(
                base_url=cluster.server,
                auth=cluster.auth,
                verify=cluster.tls,
                timeout=self._timeout_s,
                headers={"User-Agent": "ampcore-scheduler", "Accept": "application/json"},
            )
        return self._client

    def _send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        json: Object | None = None,
    ) -> Object:
        if (pause_s := self._silent_until - time.monotonic()) > 0:
            raise BatchSystemUnavailable(f"{self._server} asks to wait {pause_s:.0f} s.")
        client = self._connected()
        try:
            response = client.request(method, path, params=params, json=json)
        except CredentialsInvalid as error:
            raise BatchSystemUnavailable(str(error)) from error
        except httpx.HTTPError as error:
            self.close()
            raise BatchSystemUnavailable(_sentence(self._server, error, self._timeout_s)) from error
        return self._document(response)

    def _document(self, response: httpx.Response) -> Object:
        document = _json(response)
        if response.is_success and document is not None:
            return document
        status = document if document is not None else {}
        message = str(status.get("message") or f"HTTP {response.status_code}")[:MAX_MESSAGE]
        if response.status_code == httpx.codes.TOO_MANY_REQUESTS or response.is_server_error:
            self._silent_until = time.monotonic() + _retry_after_s(response)
            raise BatchSystemUnavailable(f"{self._server}: {message}")
        if response.status_code == httpx.codes.UNAUTHORIZED:
            raise BatchSystemUnavailable(
                f"{self._server} does not accept the credentials of the scheduler: {message}"
            )
        if not response.is_client_error:
            raise BatchSystemUnavailable(
                f"{self._server}: expected an answer of the Kubernetes API, received {message}."
            )
        raise ApiError(response.status_code, str(status.get("reason") or ""), message)


def _json(response: httpx.Response) -> Object | None:
    try:
        document = response.json()
    except ValueError:  # of a proxy, say
        return None
    return document if isinstance(document, dict) else None


def _retry_after_s(response: httpx.Response) -> float:
    text = response.headers.get("Retry-After", "")
    return min(float(text), MAX_RETRY_AFTER_S) if text.isdecimal() else 0.0


def _sentence(server: str, error: httpx.HTTPError, timeout_s: float) -> str:
    cause = error.__cause__ or error.__context__
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"The certificate of {server} is not accepted: {cause.verify_message}."
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx.TimeoutException):
        return f"{server} has not answered within {timeout_s:g} s."
    return f"{server}: {error}"
