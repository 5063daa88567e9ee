"""Read settings from environment variables; one that makes no sense is named in one sentence.

What is received is repeated only where it can hold no secret.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

from service.logs import FORMATS

DEFAULT_DATA_DIR: Final = "ampcore-data"
DEFAULT_LEASE_S: Final = 30.0
DATABASES: Final = ("sqlite", "postgresql")
QUEUES: Final = ("redis", "rediss", "redis+socket", "unix", "sentinel")


class SettingsInvalid(ValueError):
    """A setting is missing or makes no sense; the message names its variable."""


@dataclass(frozen=True)
class Surroundings:
    """What server and worker must both know, and know alike."""

    # Left out of the repr: both may hold a password.
    database_url: str = field(repr=False)
    redis_url: str = field(repr=False)
    data_dir: Path
    artifacts_url: str = field(default="", kw_only=True)
    """Where the files of jobs are kept; left out: the folder `artifacts` in the data folder."""
    lease_s: float = field(default=DEFAULT_LEASE_S, kw_only=True)
    """How long a job belongs to a worker that says nothing."""
    log_format: str = field(default="json", kw_only=True)

    def __post_init__(self) -> None:
        if not self.artifacts_url:
            folder = (self.data_dir / "artifacts").absolute()
            object.__setattr__(self, "artifacts_url", folder.as_uri())


@dataclass(frozen=True)
class Environment:
    """Variables named AMPCORE_…; an empty one counts as not set."""

    variables: Mapping[str, str]

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> Self:
        """The variables, without blanks around their values."""
        return cls({name: value.strip() for name, value in variables.items()})

    def text(self, name: str, default: str) -> str:
        """What the variable says, else the default."""
        return self.variables.get(name) or default

    def needed(self, name: str) -> str:
        """What the variable says; a worker cannot guess where its server keeps things."""
        if value := self.variables.get(name):
            return value
        raise SettingsInvalid(f"{name} is not set; a worker needs the same one as its server.")

    def choice(self, name: str, default: str, *words: str) -> str:
        """One of some words."""
        word = self.text(name, default)
        if word not in words:
            raise SettingsInvalid(f"{name}: expected {' or '.join(words)}, received {word!r}.")
        return word

    def whole_number(self, name: str, default: int, *, least: int, most: int) -> int:
        """A number without a fraction, in a range."""
        text = self.text(name, str(default))
        if not (text.isascii() and text.isdecimal() and least <= int(text[:20]) <= most):
            raise SettingsInvalid(
                f"{name}: expected a number from {least} to {most}, received {text[:40]!r}."
            )
        return int(text)

    def seconds(self, name: str, default: float, *, least: float, most: float) -> float:
        """A length of time."""
        text = self.text(name, str(default))
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:  # false for NaN too
            raise SettingsInvalid(
                f"{name}: expected seconds from {least:g} to {most:g}, received {text[:40]!r}."
            )
        return value

    def data_dir(self) -> Path:
        """The folder for everything that is kept on this machine."""
        return Path(self.text("AMPCORE_DATA_DIR", DEFAULT_DATA_DIR)).absolute()

    def log_format(self, default: str) -> str:
        """How log lines look."""
        return self.choice("AMPCORE_LOG_FORMAT", default, *FORMATS)

    def shared(self) -> dict[str, Any]:
        """The settings beside the addresses that server and worker read alike."""
        return {
            "data_dir": self.data_dir(),
            "artifacts_url": artifacts_url(self.text("AMPCORE_ARTIFACTS_URL", "")),
            "lease_s": self.seconds("AMPCORE_LEASE_S", DEFAULT_LEASE_S, least=0.5, most=3600),
            "log_format": self.log_format("json"),
        }


def database_url(text: str) -> str:
    """The address of a database. Raises SettingsInvalid without repeating it."""
    from sqlalchemy import make_url  # here: a command that only prints its help does without
    from sqlalchemy.exc import ArgumentError

    name = "AMPCORE_DATABASE_URL"
    try:
        kind = make_url(text).get_backend_name()
    except (ArgumentError, ValueError):  # ValueError: a port that is no number
        raise SettingsInvalid(
            f"{name}: expected an address such as postgresql://user:password@host:5432/name "
            "or sqlite:////folder/file, received something else."
        ) from None
    if kind not in DATABASES:
        raise SettingsInvalid(f"{name}: expected {' or '.join(DATABASES)}, received {kind}.")
    return text


def redis_url(text: str) -> str:
    """The address of Redis. Raises SettingsInvalid without repeating it."""
    if _scheme(text) not in QUEUES:
        raise SettingsInvalid(
            "AMPCORE_REDIS_URL: expected an address such as redis://:password@host:6379/0, "
            "received something else."
        )
    return text


def artifacts_url(text: str) -> str:
    """The address of a storage, or nothing. Raises SettingsInvalid without repeating it."""
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
    """What stands before `://` in an address that can be read; empty: it is none."""
    try:
        address = urlsplit(text)
        _ = address.port
    except ValueError:
        return ""
    return address.scheme if "://" in text and (address.netloc or address.path) else ""
