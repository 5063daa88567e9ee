"""Classify database errors: outages, lost responses to a COMMIT, and bugs of this program.

A retry helps only after an outage.
Source: https://www.postgresql.org/docs/current/errcodes-appendix.html
"""

import sqlite3
from typing import Any, Final

from sqlalchemy.exc import DBAPIError, InterfaceError, InvalidatePoolError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

OUTAGE_CLASSES: Final = frozenset({"08", "40", "53", "55", "57", "58"})
"""Classes: connection, transaction rollback, resources, locks, operator intervention, system."""
OUTAGE_STATES: Final = frozenset({"25006", "25P03", "25P04", "42P01"})
"""A read-only replica, a transaction that was idle or too long, tables that do not exist yet."""
UNKNOWN_STATES: Final = frozenset({"40003"})
UNKNOWN_CLASSES: Final = frozenset({"08", "57"})
"""During a COMMIT: the connection or the database server was terminated."""

SQLITE_OUTAGE_CODES: Final = frozenset(
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


class CommitOutcomeUnknown(OperationalError):
    """The response to a COMMIT was lost: the transaction is committed, or rolled back.

    A retry must be able to find out which.
    """


def describe(error: Exception) -> str:
    """The type and the first line of an error; of a database error without statement and values."""
    cause: BaseException = error
    if isinstance(error, DBAPIError) and error.orig is not None:
        cause = error.orig
    lines = str(cause).strip().splitlines() or ["no details"]
    return f"{type(cause).__name__}: {lines[0]}"


def is_outage(error: Exception) -> bool:
    """Whether the error is an outage, so that a retry can help."""
    if isinstance(error, PoolTimeout | InvalidatePoolError):
        return True
    if not isinstance(error, DBAPIError):
        return False
    sqlstate, code = _sqlstate(error), _sqlite_code(error)
    if sqlstate is not None:
        return sqlstate in OUTAGE_STATES or sqlstate[:2] in OUTAGE_CLASSES
    if code is not None:
        return code in SQLITE_OUTAGE_CODES or NO_TABLE in str(error.orig)
    return isinstance(error, OperationalError | InterfaceError)


def is_outcome_unknown(error: DBAPIError) -> bool:
    """Whether a COMMIT that raised this error may have been executed."""
    sqlstate, code = _sqlstate(error), _sqlite_code(error)
    if sqlstate is not None:  # PostgreSQL has responded
        return sqlstate in UNKNOWN_STATES or sqlstate[:2] in UNKNOWN_CLASSES
    if code is not None:  # SQLite reports a failed commit, unless the disk failed during it
        return code == sqlite3.SQLITE_IOERR
    return isinstance(error, OperationalError | InterfaceError)


def _sqlstate(error: DBAPIError) -> str | None:
    state: Any = getattr(error.orig, "sqlstate", None)
    return state if isinstance(state, str) else None


def _sqlite_code(error: DBAPIError) -> int | None:
    """The primary result code; the higher bits hold details."""
    code: Any = getattr(error.orig, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None
