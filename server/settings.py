"""The server's settings, read from the environment once."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Final, Self

from service.settings import Environment, SettingsInvalid, SharedSettings, database_url, redis_url

DEFAULT_REDIS_URL: Final = "redis://127.0.0.1:6379/0"
DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8470
DEFAULT_RATE_LIMIT: Final = "60000/minute"
DEFAULT_TRUSTED_PROXIES: Final = "127.0.0.0/8,::1"
NO_PROXY: Final = "none"
RATE: Final = re.compile(r"off|[1-9][0-9]{0,8}/(second|minute|hour|day)")

Networks = tuple[IPv4Network | IPv6Network, ...]


def networks(text: str) -> Networks:
    """The addresses and networks in a comma-separated list. Raises SettingsInvalid."""
    if text == NO_PROXY:
        return ()
    try:
        return tuple(ip_network(part.strip()) for part in text.split(","))
    except ValueError as error:
        raise SettingsInvalid(
            "AMPCORE_TRUSTED_PROXIES: expected none, or addresses and networks with commas "
            f"between as in {DEFAULT_TRUSTED_PROXIES}, received {text[:80]!r}: {error}."
        ) from None


LOOPBACK: Final = networks(DEFAULT_TRUSTED_PROXIES)


@dataclass(frozen=True)
class Settings(SharedSettings):
    """The server's settings; each is the environment variable AMPCORE_<NAME>."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    rate_limit: str = DEFAULT_RATE_LIMIT
    """How many requests a token may send to this process, as in 60000/minute; or off."""
    trusted_proxies: Networks = LOOPBACK
    """Proxies whose X-Forwarded-For and X-Forwarded-Proto headers are used."""

    @classmethod
    def from_environment(cls, variables: Mapping[str, str] = os.environ) -> Self:
        """Read the settings. Raises SettingsInvalid, naming the variable."""
        given = Environment.of(variables)
        embedded = sqlite_url(given.data_dir())
        return cls(
            database_url=database_url(given.text("AMPCORE_DATABASE_URL", embedded)),
            redis_url=redis_url(given.text("AMPCORE_REDIS_URL", DEFAULT_REDIS_URL)),
            host=given.text("AMPCORE_HOST", DEFAULT_HOST),
            port=given.whole_number("AMPCORE_PORT", DEFAULT_PORT, least=0, most=65_535),
            rate_limit=_rate(given.text("AMPCORE_RATE_LIMIT", DEFAULT_RATE_LIMIT)),
            trusted_proxies=networks(
                given.text("AMPCORE_TRUSTED_PROXIES", DEFAULT_TRUSTED_PROXIES)
            ),
            **given.shared(),
        )

    @property
    def datasets_dir(self) -> Path:
        """The folder that a job's `data.path` is relative to and cannot leave."""
        return self.data_dir / "datasets"


def default_data_dir(variables: Mapping[str, str] = os.environ) -> Path:
    """The data folder in the environment, else ./ampcore-data."""
    return Environment.of(variables).data_dir()


def sqlite_url(data_dir: Path) -> str:
    """The URL of the embedded database in a data folder."""
    return f"sqlite:///{data_dir / 'ampcore.sqlite'}"


def _rate(text: str) -> str:
    if not RATE.fullmatch(text):
        raise SettingsInvalid(
            f"AMPCORE_RATE_LIMIT: expected off, or requests in a time as in {DEFAULT_RATE_LIMIT}, "
            f"received {text[:40]!r}."
        )
    return text
