"""One database, SQLite or PostgreSQL: its engine, and sessions to read and to write."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import DBAPIError, InvalidatePoolError
from sqlalchemy.orm import Session

from store.database_errors import OutcomeUnknown, is_unknown
from store.partial_rows import read_json

BUSY_TIMEOUT_S = 30
BUSY_PAUSE_S = 0.01
"""Between two attempts at a lock that SQLite itself does not wait for."""
CONNECT_TIMEOUT_S = 5
SILENT_S = 10
"""A connection over which nothing comes back for so long is given up."""
TRUSTED_S = 1.0
"""A connection that was good a moment ago is used without a question; an older one is asked."""
IDLE_IN_TRANSACTION_S = 15
"""A process that stands still amid a transaction must not keep its locks: it might be stopped."""
PRIVATE: Final = 0o600
"""The permissions of the files of an SQLite database."""
BINARY: Final = "ampcore_binary"
"""An execution option of statements that read long values; for PostgreSQL."""


class Database:
    """Opens nothing until the first session."""

    def __init__(self, url: str, *, engine: Engine | None = None) -> None:
        """Make an engine for the address, or use the one that is given."""
        self.engine = engine or _engine(url)
        self._writing = self.engine.execution_options(writes=True)
        self._turn: AbstractContextManager[object] = nullcontext()
        if self.engine.dialect.name == "sqlite":
            # SQLite lets one write at a time and makes the others poll; a lock lets them queue.
            self._turn = Lock()
            self._reading = self.engine
            self._looking = self.engine.execution_options(looks=True)
        else:
            # As with SQLite: all that one session reads stood in the database at one moment.
            self._reading = self.engine.execution_options(isolation_level="REPEATABLE READ")
            self._looking = self.engine.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session that sees one moment, and whose transaction is rolled back at the end."""
        with Session(self._reading) as session:
            yield session

    @contextmanager
    def look(self) -> Iterator[Connection]:
        """A connection for what is asked all the time: without objects and without a transaction.

        Each statement sees what was committed before it, as it would with PostgreSQL in `read`.
        """
        with self._looking.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A session whose transaction is committed, or rolled back when an error leaves it.

        Raises OutcomeUnknown where the commit was sent and its answer did not come: the only error
        after which anything may be done.
        """
        with self._turn, Session(self._writing, expire_on_commit=False) as session:
            session.begin()
            yield session
            session.flush()  # so that nothing but the COMMIT itself can fail in `_commit`
            _commit(session)

    def close(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()


def _commit(session: Session) -> None:
    try:
        session.commit()
    except DBAPIError as error:
        if not is_unknown(error):
            raise
        raise OutcomeUnknown("COMMIT", None, error.orig or error) from error


def _engine(url: str) -> Engine:
    address = make_url(url)
    if address.get_backend_name() == "postgresql":
        address = address.set(drivername="postgresql+psycopg")
        engine = create_engine(
            address,
            hide_parameters=True,  # what people send does not belong into logs of errors
            pool_size=10,
            pool_use_lifo=True,
            skip_autocommit_rollback=True,
            max_overflow=40,
            connect_args={
                "connect_timeout": CONNECT_TIMEOUT_S,
                "keepalives_idle": SILENT_S // 2,
                "keepalives_interval": 1,
                "keepalives_count": SILENT_S // 2,
                "tcp_user_timeout": SILENT_S * 1000,
            },
        )
        event.listen(engine, "connect", _set_up_postgresql)
        event.listen(engine, "before_cursor_execute", _take_binary)
        _ask_after_a_rest(engine)
        return engine
    engine = create_engine(
        address,
        hide_parameters=True,
        connect_args={"timeout": BUSY_TIMEOUT_S},
        json_deserializer=read_json,
    )
    if address.database and not address.database.startswith((":", "file:")):
        event.listen(engine, "do_connect", partial(_keep_private, Path(address.database)))
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_up_postgresql(connection: Any, _record: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SET idle_in_transaction_session_timeout = '{IDLE_IN_TRANSACTION_S}s'")
    connection.commit()


def _take_binary(
    _connection: Any, cursor: Any, _statement: Any, _parameters: Any, context: Any, _many: bool
) -> None:
    """Results as they are, where a statement asks for it: as text, bytes are twice as long."""
    if context.execution_options.get(BINARY):
        cursor.format = 1


def _ask_after_a_rest(engine: Engine) -> None:
    """As `pool_pre_ping`, without the question at each use while there is much to do."""

    def used(_connection: Any, record: Any) -> None:
        record.info["used_at"] = monotonic()

    def ask(connection: Any, record: Any, _proxy: Any) -> None:
        if monotonic() - record.info["used_at"] > TRUSTED_S:
            try:
                engine.dialect.do_ping(connection)
            except engine.dialect.loaded_dbapi.Error as error:
                raise InvalidatePoolError(str(error)) from error

    event.listen(engine, "connect", used)
    event.listen(engine, "checkin", used)
    event.listen(engine, "checkout", ask)


def _keep_private(database: Path, *_: Any) -> None:
    """Let nobody but its owner read the database, nor the files that SQLite puts beside it.

    SQLite gives those the permissions of the database. Older versions left them to the umask.
    """
    with suppress(OSError):  # the folder is not there, or not ours: SQLite says what is wrong
        os.close(os.open(database, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, PRIVATE))
    for suffix in ("", "-wal", "-shm", "-journal"):
        file = database.with_name(database.name + suffix)
        with suppress(OSError):  # it is not there, or somebody else's
            if stat.S_IMODE(file.stat().st_mode) & ~PRIVATE:
                file.chmod(PRIVATE)


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves
    _use_write_ahead_log(connection)
    connection.execute("PRAGMA synchronous = FULL")  # what was answered 201 survives a power cut
    connection.execute("PRAGMA foreign_keys = ON")


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Wait, as for any other lock, where another connection changes a new database's mode too.

    SQLite itself does not: it answers "database is locked" at once, whatever its timeout.
    """
    deadline = monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or monotonic() > deadline:
                raise
            sleep(BUSY_PAUSE_S)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("looks", False):
        return
    # A transaction that reads first and writes later cannot wait for the lock ("database is
    # locked"); one that takes the lock at once waits its turn.
    immediate = options.get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")
