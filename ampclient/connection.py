"""Which server to speak to, and with which token: arguments, environment, connection file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from ampclient.errors import NotConfigured

DEFAULT_DATA_DIR = "ampcore-data"
FILE_NAME = "connection.json"
API_PREFIX = "/api/v1"


@dataclass(frozen=True)
class Connection:
    """The address of a server (without the API's prefix) and a token for it."""

    url: str
    token: str = field(repr=False)

    def __post_init__(self) -> None:
        url = self.url.strip().rstrip("/").removesuffix(API_PREFIX)
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise NotConfigured(
                f"Expected an address such as http://127.0.0.1:8470; received {self.url!r}."
            )
        token = self.token.strip()
        if not token or not token.isascii() or not token.isprintable():
            raise NotConfigured("Expected a token of printable ASCII characters.")
        object.__setattr__(self, "url", url)
        object.__setattr__(self, "token", token)

    @property
    def is_loopback(self) -> bool:
        """True when the server runs on this machine."""
        host = urlsplit(self.url).hostname or ""
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Read the file that `ampserver up` writes. Raises NotConfigured when it cannot be."""
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
            return cls(str(document["url"]), str(document["token"]))
        except OSError as error:
            raise NotConfigured(
                f"Cannot read the connection file {path}: {error.strerror}."
            ) from None
        except (ValueError, KeyError, TypeError):
            raise NotConfigured(
                f'Expected {{"url": …, "token": …}} in the connection file {path}.'
            ) from None


def connection_path(environ: Mapping[str, str]) -> Path:
    """Where the connection file is, if there is one."""
    if path := environ.get("AMPCORE_CONNECTION"):
        return Path(path)
    return Path(environ.get("AMPCORE_DATA_DIR") or DEFAULT_DATA_DIR) / FILE_NAME


def resolve(url: str | None, token: str | None, environ: Mapping[str, str]) -> Connection:
    """The connection that the arguments, else the environment, else the file describe.

    The file's token is used for the file's own server only. Raises NotConfigured.
    """
    url = url or environ.get("AMPCORE_URL")
    token = token or environ.get("AMPCORE_TOKEN")
    if url and token:
        return Connection(url, token)
    path = connection_path(environ)
    if not path.exists():
        missing = "token" if url else "server address"
        raise NotConfigured(
            f"No {missing} was given: set AMPCORE_URL and AMPCORE_TOKEN, or start a server with "
            f"`ampserver up`, which writes the connection file (looked for {path})."
        )
    stored = Connection.from_file(path)
    chosen = Connection(url or stored.url, token or stored.token)
    # A token belongs to its server: never show it to another one.
    if chosen.url != stored.url and not token:
        raise NotConfigured(
            f"No token was given for {chosen.url}: set AMPCORE_TOKEN "
            f"(the connection file {path} is for {stored.url})."
        )
    return chosen
