"""Which errors of a database mean that it is away, and which that nobody knows what was done.

What is neither is a mistake of this program, and no outage: to try again would not help.
Source: https://www.postgresql.org/docs/current/errcodes-appendix.html
"""

import sqlite3
from typing import Any, Final

from sqlalchemy.exc import DBAPIError, InterfaceError, InvalidatePoolError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

AWAY_CLASSES: Final = frozenset({"08", "40", "53", "55", "57", "58"})
"""Connections, conflicts, memory and disk, locks, an administrator's doing, the system."""
AWAY_STATES: Final = frozenset({"25006", "25P03", "42P01"})
"""A replica that takes no writes, a transaction that stood still, tables that are not made yet."""
UNKNOWN_STATES: Final = frozenset({"40003"})
UNKNOWN_CLASSES: Final = frozenset({"08", "57"})
"""Of a COMMIT: the connection ended, or the server was ended, while it was carried out."""

SQLITE_AWAY: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)
NO_TABLE: Final = "no such table"


class OutcomeUnknown(OperationalError):
    """The answer to a COMMIT was lost: all of the transaction is done, or nothing of it.

    Whoever tries again must be able to find out which.
    """


def is_outage(error: Exception) -> bool:
    """Whether the database is away for a while, so that it makes sense to try again."""
    if isinstance(error, PoolTimeout | InvalidatePoolError):
        return True
    if not isinstance(error, DBAPIError):
        return False
    sqlstate, code = _sqlstate(error), _sqlite_code(error)
    if sqlstate is not None:
        return sqlstate in AWAY_STATES or sqlstate[:2] in AWAY_CLASSES
    if code is not None:
        return code in SQLITE_AWAY or NO_TABLE in str(error.orig)
    return isinstance(error, OperationalError | InterfaceError)


def is_unknown(error: DBAPIError) -> bool:
    """Whether a COMMIT that raised this may have been carried out."""
    sqlstate, code = _sqlstate(error), _sqlite_code(error)
    if sqlstate is not None:  # PostgreSQL has answered
        return sqlstate in UNKNOWN_STATES or sqlstate[:2] in UNKNOWN_CLASSES
    if code is not None:  # SQLite's own word: it was not, unless the disk failed on the way
        return code == sqlite3.SQLITE_IOERR
    return isinstance(error, OperationalError | InterfaceError)


def _sqlstate(error: DBAPIError) -> str | None:
    state: Any = getattr(error.orig, "sqlstate", None)
    return state if isinstance(state, str) else None


def _sqlite_code(error: DBAPIError) -> int | None:
    """The primary result code; the higher bits tell details."""
    code: Any = getattr(error.orig, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None
