"""Finds the server address and token: arguments, environment, connection file, login."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit
from uuid import uuid4

from ampclient.errors import NotConfigured

DEFAULT_DATA_DIR = "ampcore-data"
FILE_NAME = "connection.json"
API_PREFIX = "/api/v1"
FROM_ARGUMENTS = "the arguments"
FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600


@dataclass(frozen=True)
class Connection:
    """The address of a server (without the API's prefix), its token, and where both come from."""

    url: str
    token: str = field(repr=False)
    url_from: str = field(default=FROM_ARGUMENTS, compare=False)
    token_from: str = field(default=FROM_ARGUMENTS, compare=False)

    def __post_init__(self) -> None:
        url = self.url.strip().rstrip("/").removesuffix(API_PREFIX)
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise NotConfigured(
                f"Expected a server address such as http://127.0.0.1:8470; received {self.url!r}."
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
    def from_file(cls, path: str | Path, label: str = "the connection file") -> Self:
        """Read a file that `ampserver up` wrote. Raises NotConfigured if it cannot be read.

        `label` names the file in errors.
        """
        source = f"{label} {path}"
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
            return cls(str(document["url"]), str(document["token"]), source, source)
        except OSError as error:
            raise NotConfigured(f"Cannot read {source}: {error.strerror}.") from None
        except (ValueError, KeyError, TypeError):
            raise NotConfigured(f'Expected {{"url": …, "token": …}} in {source}.') from None


def connection_path(environ: Mapping[str, str]) -> Path:
    """The path of the connection file, whether it exists or not."""
    if path := environ.get("AMPCORE_CONNECTION"):
        return Path(path)
    return Path(environ.get("AMPCORE_DATA_DIR") or DEFAULT_DATA_DIR) / FILE_NAME


def login_path(environ: Mapping[str, str]) -> Path | None:
    """The path of the file of `ampctl login`; None if the user has no home folder.

    Source: XDG Base Directory Specification, https://specifications.freedesktop.org/basedir-spec
    """
    configured = Path(environ.get("XDG_CONFIG_HOME") or "")
    if not configured.is_absolute():  # the specification says to ignore relative paths
        home = environ.get("HOME") or environ.get("USERPROFILE")
        if not home:
            return None
        configured = Path(home) / ".config"
    return configured / "ampcore" / "login.json"


def resolve(url: str | None, token: str | None, environ: Mapping[str, str]) -> Connection:
    """The connection from the arguments, else the environment, the connection file or the login.

    The token of a file is used only for the server in the same file. Raises NotConfigured.
    """
    url, url_from = _first((url, FROM_ARGUMENTS), (environ.get("AMPCORE_URL"), "AMPCORE_URL"))
    token, token_from = _first(
        (token, FROM_ARGUMENTS), (environ.get("AMPCORE_TOKEN"), "AMPCORE_TOKEN")
    )
    if url and token:
        return Connection(url, token, url_from, token_from)
    files = _connection_files(environ)
    if not files:
        missing = "token" if url else "server address"
        raise NotConfigured(
            f"No {missing} found: set AMPCORE_URL and AMPCORE_TOKEN, run `ampctl login`, or "
            f"start a local server with `ampserver up` (it writes the connection file; looked for "
            f"{connection_path(environ)})."
        )
    if not url:
        first = Connection.from_file(*files[0])
        url, url_from = first.url, first.url_from
    if token:
        return Connection(url, token, url_from, token_from)
    return _with_own_token(url, url_from, files)


def _first(*candidates: tuple[str | None, str]) -> tuple[str | None, str]:
    """The first candidate with a value, and its source."""
    return next((candidate for candidate in candidates if candidate[0]), (None, ""))


def _connection_files(environ: Mapping[str, str]) -> list[tuple[Path, str]]:
    """The existing files and their labels: the connection file, then the login."""
    file, login = connection_path(environ), login_path(environ)
    files = [(file, "the connection file")] if file.exists() else []
    if not files and environ.get("AMPCORE_CONNECTION"):
        return []  # a file named explicitly has no fallback
    if login is not None and login.exists():
        files.append((login, "the login"))
    return files


def _with_own_token(url: str, url_from: str, files: Sequence[tuple[Path, str]]) -> Connection:
    """The address with its own stored token: a token is never sent to another server."""
    chosen, reasons = Connection(url, "none", url_from), []
    for path, label in files:
        stored = Connection.from_file(path, label)
        if stored.url == chosen.url:
            return replace(chosen, token=stored.token, token_from=stored.token_from)
        reasons.append(f"{stored.token_from} is for {stored.url}")
    raise NotConfigured(
        f"No token for {chosen.url}: set AMPCORE_TOKEN, or run `ampctl login` "
        f"({', '.join(reasons)})."
    )


def store_login(connection: Connection, path: Path) -> None:
    """Write the file of `ampctl login`, readable by its owner only. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
    document = {"url": connection.url, "token": connection.token}
    part = path.with_name(f".{path.name}.{uuid4().hex[:8]}")
    # Created with its mode, not changed afterwards, so that no one else can ever read it.
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{json.dumps(document)}\n")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
