"""Settings from environment variables. An invalid one raises an error that names the variable.

The message quotes the value only if it cannot contain a secret.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

from service.log_config import FORMATS

DEFAULT_DATA_DIR: Final = "ampcore-data"
DEFAULT_LEASE_S: Final = 30.0
DATABASE_SCHEMES: Final = ("sqlite", "postgresql")
REDIS_SCHEMES: Final = ("redis", "rediss", "redis+socket", "unix", "sentinel")


class SettingsInvalid(ValueError):
    """A setting is missing or invalid; the message names its variable."""


@dataclass(frozen=True)
class SharedSettings:
    """Settings that server and worker share and that must be equal in both."""

    # Not in the repr: both may contain a password.
    database_url: str = field(repr=False)
    redis_url: str = field(repr=False)
    data_dir: Path
    artifacts_url: str = field(default="", kw_only=True)
    """URL of the storage for files of jobs; default: the folder `artifacts` in the data folder."""
    lease_s: float = field(default=DEFAULT_LEASE_S, kw_only=True)
    """A worker owns its job for so long after its last write or heartbeat."""
    log_format: str = field(default="json", kw_only=True)

    def __post_init__(self) -> None:
        if not self.artifacts_url:
            folder = (self.data_dir / "artifacts").absolute()
            object.__setattr__(self, "artifacts_url", folder.as_uri())


@dataclass(frozen=True)
class Environment:
    """The variables AMPCORE_…; an empty one counts as not set."""

    variables: Mapping[str, str]

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> Self:
        """Copy the variables, with whitespace stripped from their values."""
        return cls({name: value.strip() for name, value in variables.items()})

    def text(self, name: str, default: str) -> str:
        """The value of the variable, else the default."""
        return self.variables.get(name) or default

    def needed(self, name: str) -> str:
        """The value of a required variable. Raises SettingsInvalid if it is not set."""
        if value := self.variables.get(name):
            return value
        raise SettingsInvalid(f"{name} is not set; a worker needs the same one as its server.")

    def choice(self, name: str, default: str, *words: str) -> str:
        """The value, which must be one of `words`."""
        word = self.text(name, default)
        if word not in words:
            raise SettingsInvalid(f"{name}: expected {' or '.join(words)}, received {word!r}.")
        return word

    def whole_number(self, name: str, default: int, *, least: int, most: int) -> int:
        """An integer in a range."""
        text = self.text(name, str(default))
        if not (text.isascii() and text.isdecimal() and least <= int(text[:20]) <= most):
            raise SettingsInvalid(
                f"{name}: expected a number from {least} to {most}, received {text[:40]!r}."
            )
        return int(text)

    def seconds(self, name: str, default: float, *, least: float, most: float) -> float:
        """A duration in seconds, in a range."""
        text = self.text(name, str(default))
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:  # also rejects NaN
            raise SettingsInvalid(
                f"{name}: expected seconds from {least:g} to {most:g}, received {text[:40]!r}."
            )
        return value

    def data_dir(self) -> Path:
        """The folder for all data on this machine."""
        return Path(self.text("AMPCORE_DATA_DIR", DEFAULT_DATA_DIR)).absolute()

    def log_format(self, default: str) -> str:
        """The format of log lines."""
        return self.choice("AMPCORE_LOG_FORMAT", default, *FORMATS)

    def shared(self) -> dict[str, Any]:
        """The shared settings other than URLs."""
        return {
            "data_dir": self.data_dir(),
            "artifacts_url": artifacts_url(self.text("AMPCORE_ARTIFACTS_URL", "")),
            "lease_s": self.seconds("AMPCORE_LEASE_S", DEFAULT_LEASE_S, least=0.5, most=3600),
            "log_format": self.log_format("json"),
        }


def database_url(text: str) -> str:
    """Check a database URL. Raises SettingsInvalid, without quoting it."""
    from sqlalchemy import make_url  # imported here: `--help` does not need it
    from sqlalchemy.exc import ArgumentError

    name = "AMPCORE_DATABASE_URL"
    try:
        kind = make_url(text).get_backend_name()
    except (ArgumentError, ValueError):  # ValueError: the port is not a number
        raise SettingsInvalid(
            f"{name}: expected an address such as postgresql://user:password@host:5432/name "
            "or sqlite:////folder/file, received something else."
        ) from None
    if kind not in DATABASE_SCHEMES:
        raise SettingsInvalid(f"{name}: expected {' or '.join(DATABASE_SCHEMES)}, received {kind}.")
    return text


def redis_url(text: str) -> str:
    """Check a Redis URL. Raises SettingsInvalid, without quoting it."""
    if _scheme(text) not in REDIS_SCHEMES:
        raise SettingsInvalid(
            "AMPCORE_REDIS_URL: expected an address such as redis://:password@host:6379/0, "
            "received something else."
        )
    return text


def artifacts_url(text: str) -> str:
    """Check a storage URL, which may be empty. Raises SettingsInvalid, without quoting it."""
    if text and (not _scheme(text) or "@" in text):
        raise SettingsInvalid(
            "AMPCORE_ARTIFACTS_URL: expected an address such as file:///folder or "
            "s3://bucket/folder, without a password in it; received something else."
        )
    if _scheme(text) == "s3" and find_spec("s3fs") is None:
        raise SettingsInvalid(
            "AMPCORE_ARTIFACTS_URL: s3:// needs the package s3fs: pip install 'ampcore[s3]'."
        )
    return text


def _scheme(text: str) -> str:
    """The scheme of a valid URL; empty if it is not valid."""
    try:
        address = urlsplit(text)
        _ = address.port
    except ValueError:
        return ""
    return address.scheme if "://" in text and (address.netloc or address.path) else ""
