"""What the processes of a stack are told of it: how to reach PostgreSQL and Redis, and limits."""

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
"""Longer than any process of a stack stands still on a busy machine. No test waits for the end of
one: it says that the time is over (`Cluster.lapse`)."""
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ways:
    """From one side of the stack to PostgreSQL and to Redis; each may be cut or blocked."""

    postgres: Proxy
    redis: Proxy

    def restore(self) -> None:
        self.postgres.restore()
        self.redis.restore()

    def close(self) -> None:
        self.postgres.close()
        self.redis.close()


@dataclass(frozen=True)
class Surroundings:
    """A folder, a database in PostgreSQL and a Redis, as the processes of a stack see them."""

    folder: Path
    server: Postgres
    redis: Any
    database: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "database", self.server.new_database())
        self.temporary.mkdir()

    @property
    def temporary(self) -> Path:
        """Inherited by trainers too, and so what tells our processes from all others."""
        return self.folder / "tmp"

    def ways(self) -> Ways:
        """New ways, for one side of the stack."""
        return Ways(Proxy(self.server.connect), Proxy(self._connect_redis))

    def environment(self, ways: Ways) -> Mapping[str, str]:
        """Of a process that takes these ways."""
        redis, here = urlsplit(self.redis.url), "127.0.0.1"
        redis = redis._replace(netloc=f":{redis.password}@{here}:{ways.redis.port}")
        return {
            **{name: value for name, value in os.environ.items() if "AMPCORE" not in name},
            "AMPCORE_DATABASE_URL": (
                f"postgresql://postgres@{here}:{ways.postgres.port}/{self.database}"
            ),
            "AMPCORE_REDIS_URL": redis.geturl(),
            "AMPCORE_DATA_DIR": str(self.folder / "data"),
            "AMPCORE_LEASE_S": str(LEASE_S),
            "AMPCORE_LOG_FORMAT": "text",
            "PYTHONPATH": os.environ.get("PYTHONPATH", str(ROOT)),
            "TMPDIR": str(self.temporary),
        }

    def _connect_redis(self) -> socket.socket:
        address = urlsplit(self.redis.url)
        return socket.create_connection(("127.0.0.1", address.port or 0))
