"""What a server must know of its surroundings, read from the environment once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

DEFAULT_DATA_DIR: Final = "ampcore-data"
DEFAULT_REDIS_URL: Final = "redis://127.0.0.1:6379/0"
DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8470


class SettingsInvalid(ValueError):
    """A setting of the server makes no sense."""


@dataclass(frozen=True)
class Settings:
    """The server's settings; each is the environment variable AMPCORE_<NAME>."""

    database_url: str
    redis_url: str
    data_dir: Path
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Raises SettingsInvalid, naming the variable."""
        data_dir = default_data_dir(environment)
        return cls(
            database_url=environment.get("AMPCORE_DATABASE_URL") or sqlite_url(data_dir),
            redis_url=environment.get("AMPCORE_REDIS_URL") or DEFAULT_REDIS_URL,
            data_dir=data_dir,
            host=environment.get("AMPCORE_HOST") or DEFAULT_HOST,
            port=_port(environment.get("AMPCORE_PORT") or str(DEFAULT_PORT)),
        )

    @property
    def datasets_dir(self) -> Path:
        """The folder that a job's `data.path` is relative to and cannot leave."""
        return self.data_dir / "datasets"


def default_data_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """The data folder that the environment names, else ./ampcore-data."""
    return Path(environment.get("AMPCORE_DATA_DIR") or DEFAULT_DATA_DIR).absolute()


def sqlite_url(data_dir: Path) -> str:
    """The address of the embedded database in a data folder."""
    return f"sqlite:///{data_dir / 'ampcore.sqlite'}"


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise SettingsInvalid(f"AMPCORE_PORT: expected a number up to 65535, received {text!r}.")
    return int(text)
