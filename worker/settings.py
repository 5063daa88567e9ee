"""What a worker must know of its surroundings, read from the environment once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError


class SettingsInvalid(ValueError):
    """A setting of the worker is missing or makes no sense."""


@dataclass(frozen=True)
class Settings:
    """The worker's settings; each is the environment variable AMPCORE_<NAME>."""

    database_url: str
    redis_url: str
    data_dir: Path
    worker_slots: int = 1

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Raises SettingsInvalid, naming the variable."""
        data_dir = Path(environment.get("AMPCORE_DATA_DIR", "ampcore-data")).absolute()
        return cls(
            database_url=_database_url(environment),
            redis_url=_required(environment, "AMPCORE_REDIS_URL"),
            data_dir=data_dir,
            worker_slots=_positive(environment, "AMPCORE_WORKER_SLOTS", default="1"),
        )


def _database_url(environment: Mapping[str, str]) -> str:
    name = "AMPCORE_DATABASE_URL"
    try:
        make_url(url := _required(environment, name))
    except ArgumentError:
        # What came may hold a password and is not repeated.
        raise SettingsInvalid(
            f"{name}: expected an address such as postgresql://user:password@host/database."
        ) from None
    return url


def _required(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name)
    if not value:
        raise SettingsInvalid(f"{name} is not set; a worker needs the same one as its server.")
    return value


def _positive(environment: Mapping[str, str], name: str, *, default: str) -> int:
    text = environment.get(name, default)
    if not text.isdecimal() or int(text) < 1:
        raise SettingsInvalid(f"{name}: expected a number of 1 or more, received {text!r}.")
    return int(text)
