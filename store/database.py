"""The database (SQLite or PostgreSQL): its engine, and read and write sessions."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import DBAPIError, InvalidatePoolError
from sqlalchemy.orm import Session

from store import cancellation
from store.clock import add_sqlite_functions
from store.damaged_rows import read_json
from store.database_errors import CommitOutcomeUnknown, is_outcome_unknown

BUSY_TIMEOUT_S = 30
BUSY_RETRY_S = 0.01
"""Pause between two attempts at a lock that SQLite itself does not wait for."""
CONNECT_TIMEOUT_S = 5
TCP_TIMEOUT_S = 10
"""TCP_USER_TIMEOUT: a connection without an acknowledgement for this long is closed."""
PING_AFTER_IDLE_S = 1.0
"""A pooled connection that was used more recently is not pinged before it is used again."""
IDLE_IN_TRANSACTION_S = 15
"""PostgreSQL ends a transaction that is idle this long: a suspended process holds no locks."""
TRANSACTION_TIMEOUT_SINCE: Final = 170_000
"""The version of PostgreSQL that can end a transaction after some time."""
STATEMENTS_PER_TRANSACTION: Final = 4
"""A transaction may last as long as this number of statements that each take the limit."""
OWNER_ONLY: Final = 0o600
"""Permissions of SQLite's files: only the owner may read and write them."""
BINARY_RESULTS: Final = "ampcore_binary"
"""Execution option of statements with long binary values: PostgreSQL sends them unescaped."""


@dataclass(frozen=True)
class StatementLimits:
    """How long PostgreSQL may take for one statement, and for one lock, in seconds; 0: no limit.

    A statement that exceeds one fails with an error that is an outage (store.database_errors).
    SQLite waits for its one lock for BUSY_TIMEOUT_S; its reads wait for none.
    """

    statement_s: float = 0
    lock_s: float = 0


NO_LIMITS: Final = StatementLimits()
"""For migrations, and for programs that an operator watches."""


class Database:
    """Sessions of one database; connects when the first session is opened."""

    def __init__(
        self, url: str, *, engine: Engine | None = None, limits: StatementLimits = NO_LIMITS
    ) -> None:
        """Create an engine for the URL, or use the given one."""
        self.engine = engine or _engine(url, limits)
        self._writing = self.engine.execution_options(writes=True)
        self._write_lock: AbstractContextManager[object] = nullcontext()
        if self.engine.dialect.name == "sqlite":
            # SQLite allows one writer at a time, and others poll; with a lock they wait in a queue.
            self._write_lock = Lock()
            self._reading = self.engine
            self._autocommit = self.engine.execution_options(looks=True)
        else:
            # As in SQLite: a session reads one snapshot of the database.
            self._reading = self.engine.execution_options(isolation_level="REPEATABLE READ")
            self._autocommit = self.engine.execution_options(isolation_level="AUTOCOMMIT")

    def with_limits(self, limits: StatementLimits) -> "Database":
        """The same database with other limits: on PostgreSQL with separate connections.

        SQLite has no such limits, and its writers wait in one queue.
        """
        if self.engine.dialect.name == "sqlite":
            return self
        return Database(self.engine.url.render_as_string(hide_password=False), limits=limits)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session that reads one snapshot; its transaction is rolled back at the end.

        Raises Cancelled if the request that this thread works for is cancelled.
        """
        with Session(self._reading) as session:
            work = cancellation.current.get()
            if work is None:
                yield session
                return
            try:
                with work.watch(session.connection().connection.driver_connection):
                    yield session
            except DBAPIError as error:
                if work.is_cancelled:
                    raise cancellation.Cancelled from error
                raise

    @contextmanager
    def autocommit(self) -> Iterator[Connection]:
        """A connection for frequent queries: no ORM objects and no transaction.

        Each statement sees what was committed before it.
        """
        with self._autocommit.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A session whose transaction is committed at the end, or rolled back after an error.

        Raises CommitOutcomeUnknown if the response to the COMMIT was lost: the only error after
        which the transaction may have been committed.
        """
        with self._write_lock, Session(self._writing, expire_on_commit=False) as session:
            session.begin()
            yield session
            session.flush()  # only the COMMIT itself can fail in `_commit` now
            _commit(session)

    def close(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()


def _commit(session: Session) -> None:
    try:
        session.commit()
    except DBAPIError as error:
        if not is_outcome_unknown(error):
            raise
        raise CommitOutcomeUnknown("COMMIT", None, error.orig or error) from error


def _engine(url: str, limits: StatementLimits) -> Engine:
    address = make_url(url)
    if address.get_backend_name() == "postgresql":
        address = address.set(drivername="postgresql+psycopg")
        engine = create_engine(
            address,
            hide_parameters=True,  # user input must not appear in error logs
            pool_size=10,
            pool_use_lifo=True,
            skip_autocommit_rollback=True,
            max_overflow=40,
            connect_args={
                # In a database without a locale (SQL_ASCII) text would be bytes.
                "client_encoding": "utf8",
                "connect_timeout": CONNECT_TIMEOUT_S,
                "keepalives_idle": TCP_TIMEOUT_S // 2,
                "keepalives_interval": 1,
                "keepalives_count": TCP_TIMEOUT_S // 2,
                "tcp_user_timeout": TCP_TIMEOUT_S * 1000,
            },
        )
        event.listen(engine, "connect", partial(_set_up_postgresql, limits))
        event.listen(engine, "before_cursor_execute", _fetch_binary)
        _ping_after_idle(engine)
        return engine
    engine = create_engine(
        address,
        hide_parameters=True,
        connect_args={"timeout": BUSY_TIMEOUT_S},
        json_deserializer=read_json,
    )
    if address.database and not address.database.startswith((":", "file:")):
        event.listen(engine, "do_connect", partial(_make_private, Path(address.database)))
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_up_postgresql(limits: StatementLimits, connection: Any, _record: Any) -> None:
    settings = {
        "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_S,
        "statement_timeout": limits.statement_s,
        "lock_timeout": limits.lock_s,
    }
    if connection.info.server_version >= TRANSACTION_TIMEOUT_SINCE:
        # A snapshot that is held for long keeps VACUUM from removing rows.
        settings["transaction_timeout"] = limits.statement_s * STATEMENTS_PER_TRANSACTION
    with connection.cursor() as cursor:
        for name, seconds in settings.items():
            cursor.execute(f"SET {name} = {round(1000 * seconds)}")
    connection.commit()


def _fetch_binary(
    _connection: Any, cursor: Any, _statement: Any, _parameters: Any, context: Any, _many: bool
) -> None:
    """Fetch results in binary form if the statement asks for it: text doubles the size of bytes."""
    if context.execution_options.get(BINARY_RESULTS):
        cursor.format = 1


def _ping_after_idle(engine: Engine) -> None:
    """Like `pool_pre_ping`, but only for connections that were idle for a while."""

    def used(_connection: Any, record: Any) -> None:
        record.info["used_at"] = monotonic()

    def ask(connection: Any, record: Any, _proxy: Any) -> None:
        if monotonic() - record.info["used_at"] > PING_AFTER_IDLE_S:
            try:
                engine.dialect.do_ping(connection)
            except engine.dialect.loaded_dbapi.Error as error:
                raise InvalidatePoolError(str(error)) from error

    event.listen(engine, "connect", used)
    event.listen(engine, "checkin", used)
    event.listen(engine, "checkout", ask)


def _make_private(database: Path, *_: Any) -> None:
    """Let only the owner read the database file, and the files that SQLite creates next to it.

    SQLite gives those the permissions of the database file. Older versions used the umask.
    """
    # Only a new file may be opened: closing any descriptor of a file ends all locks that this
    # process has on it; another process would then delete the write-ahead log of a database in use.
    new = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
    with suppress(OSError):  # it exists; or its folder cannot be written to, as SQLite reports
        os.close(os.open(database, new, OWNER_ONLY))
    for suffix in ("", "-wal", "-shm", "-journal"):
        file = database.with_name(database.name + suffix)
        with suppress(OSError):  # it does not exist, or another user owns it
            if stat.S_IMODE(file.stat().st_mode) & ~OWNER_ONLY:
                file.chmod(OWNER_ONLY)


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # BEGIN is sent by `_begin_sqlite`, not by the driver
    _use_write_ahead_log(connection)
    connection.execute("PRAGMA synchronous = FULL")  # a committed job survives a power failure
    connection.execute("PRAGMA foreign_keys = ON")
    add_sqlite_functions(connection)


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Set WAL mode; wait if another connection sets it for a new database at the same time.

    SQLite itself raises "database is locked" at once there, whatever its timeout.
    """
    deadline = monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or monotonic() > deadline:
                raise
            sleep(BUSY_RETRY_S)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("looks", False):
        return
    # A transaction that reads first and writes later cannot wait for the lock ("database is #
    # locked"); one that takes the lock at its start waits for it.
    immediate = options.get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")
