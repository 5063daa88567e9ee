"""Which server to speak to, with which token: arguments, environment, connection file, login."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from ampclient.errors import NotConfigured

DEFAULT_DATA_DIR = "ampcore-data"
FILE_NAME = "connection.json"
API_PREFIX = "/api/v1"
GIVEN = "the arguments"


@dataclass(frozen=True)
class Connection:
    """The address of a server (without the API's prefix), a token for it, and who said so."""

    url: str
    token: str = field(repr=False)
    url_from: str = field(default=GIVEN, compare=False)
    token_from: str = field(default=GIVEN, compare=False)

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
    def from_file(cls, path: str | Path, word: str = "the connection file") -> Self:
        """Read a file such as `ampserver up` writes. Raises NotConfigured when it cannot be.

        `word` is what people call it.
        """
        place = f"{word} {path}"
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
            return cls(str(document["url"]), str(document["token"]), place, place)
        except OSError as error:
            raise NotConfigured(f"Cannot read {place}: {error.strerror}.") from None
        except (ValueError, KeyError, TypeError):
            raise NotConfigured(f'Expected {{"url": …, "token": …}} in {place}.') from None


def connection_path(environ: Mapping[str, str]) -> Path:
    """Where the connection file is, if there is one."""
    if path := environ.get("AMPCORE_CONNECTION"):
        return Path(path)
    return Path(environ.get("AMPCORE_DATA_DIR") or DEFAULT_DATA_DIR) / FILE_NAME


def login_path(environ: Mapping[str, str]) -> Path | None:
    """Where `ampctl login` keeps a connection; None where the user has no folder of their own.

    Source: XDG Base Directory Specification, https://specifications.freedesktop.org/basedir-spec
    """
    configured = Path(environ.get("XDG_CONFIG_HOME") or "")
    if not configured.is_absolute():  # a relative one is to be ignored
        home = environ.get("HOME") or environ.get("USERPROFILE")
        if not home:
            return None
        configured = Path(home) / ".config"
    return configured / "ampcore" / "login.json"


def resolve(url: str | None, token: str | None, environ: Mapping[str, str]) -> Connection:
    """The connection that the arguments describe, else the environment, a file or the login.

    The token of a file is used for the file's own server only. Raises NotConfigured.
    """
    url, url_from = _first((url, GIVEN), (environ.get("AMPCORE_URL"), "AMPCORE_URL"))
    token, token_from = _first((token, GIVEN), (environ.get("AMPCORE_TOKEN"), "AMPCORE_TOKEN"))
    if url and token:
        return Connection(url, token, url_from, token_from)
    places = _places(environ)
    if not places:
        missing = "token" if url else "server address"
        raise NotConfigured(
            f"No {missing} was given: set AMPCORE_URL and AMPCORE_TOKEN, run `ampctl login`, or "
            f"start a server with `ampserver up`, which writes the connection file (looked for "
            f"{connection_path(environ)})."
        )
    if not url:
        first = Connection.from_file(*places[0])
        url, url_from = first.url, first.url_from
    if token:
        return Connection(url, token, url_from, token_from)
    return _with_own_token(url, url_from, places)


def _first(*candidates: tuple[str | None, str]) -> tuple[str | None, str]:
    """The first that says something, and where it comes from."""
    return next((found for found in candidates if found[0]), (None, ""))


def _places(environ: Mapping[str, str]) -> list[tuple[Path, str]]:
    """The files that are there, and what people call them: the connection file, then the login."""
    file, login = connection_path(environ), login_path(environ)
    places = [(file, "the connection file")] if file.exists() else []
    if not places and environ.get("AMPCORE_CONNECTION"):
        return []  # who names a file means no other server
    if login is not None and login.exists():
        places.append((login, "the login"))
    return places


def _with_own_token(url: str, url_from: str, places: Sequence[tuple[Path, str]]) -> Connection:
    """The address with the token that is kept for it: a token is never shown to another server."""
    chosen, others = Connection(url, "none", url_from), []
    for path, word in places:
        known = Connection.from_file(path, word)
        if known.url == chosen.url:
            return replace(chosen, token=known.token, token_from=known.token_from)
        others.append(f"{known.token_from} is for {known.url}")
    raise NotConfigured(
        f"No token was given for {chosen.url}: set AMPCORE_TOKEN, or run `ampctl login` "
        f"({', '.join(others)})."
    )
