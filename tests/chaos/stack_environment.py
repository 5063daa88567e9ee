"""Environment variables and proxies of a stack's processes: PostgreSQL, Redis and limits."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.chaos.postgres import Postgres
from tests.chaos.proxy import Proxy

LEASE_S = 60.0
"""Longer than any process stalls on a busy machine. No test waits for a lease to expire: it changes
the lease (`Cluster.expire_lease`)."""
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class ProxyPair:
    """The proxies of one side of the stack, to PostgreSQL and to Redis."""

    postgres: Proxy
    redis: Proxy

    def restore(self) -> None:
        self.postgres.restore()
        self.redis.restore()

    def close(self) -> None:
        self.postgres.close()
        self.redis.close()


@dataclass(frozen=True)
class StackEnvironment:
    """A folder, a database in PostgreSQL and a Redis, as the processes of a stack see them."""

    folder: Path
    server: Postgres
    redis: Any
    settings: Mapping[str, str] = field(default_factory=dict)
    """Further variables of all processes."""
    database: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "database", self.server.new_database())
        self.temporary.mkdir()

    @property
    def temporary(self) -> Path:
        """TMPDIR of every process, trainers included; identifies the processes of this stack."""
        return self.folder / "tmp"

    def proxies(self) -> ProxyPair:
        """New proxies for one side of the stack."""
        return ProxyPair(Proxy(self.server.connect), Proxy(self._connect_redis))

    def environment(self, proxies: ProxyPair) -> Mapping[str, str]:
        """The environment of a process that uses these proxies."""
        redis, here = urlsplit(self.redis.url), "127.0.0.1"
        redis = redis._replace(netloc=f":{redis.password}@{here}:{proxies.redis.port}")
        return {
            **{name: value for name, value in os.environ.items() if "AMPCORE" not in name},
            "AMPCORE_DATABASE_URL": (
                f"postgresql://postgres@{here}:{proxies.postgres.port}/{self.database}"
            ),
            "AMPCORE_REDIS_URL": redis.geturl(),
            "AMPCORE_DATA_DIR": str(self.folder / "data"),
            "AMPCORE_LEASE_S": str(LEASE_S),
            "AMPCORE_LOG_FORMAT": "text",
            "PYTHONPATH": os.environ.get("PYTHONPATH", str(ROOT)),
            "TMPDIR": str(self.temporary),
            **self.settings,
        }

    def _connect_redis(self) -> socket.socket:
        address = urlsplit(self.redis.url)
        return socket.create_connection(("127.0.0.1", address.port or 0))
