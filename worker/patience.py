"""Transactions that wait until the database takes them, or until nobody waits for them."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from sqlalchemy.exc import InterfaceError, InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolExhausted
from sqlalchemy.orm import Session

from store.database import Database
from store.leases import LEASE_S, longest_wait_s

log = logging.getLogger(__name__)
T = TypeVar("T")

AWAY: Final = (
    OperationalError,
    InterfaceError,
    InternalError,  # as a PostgreSQL that has become a replica answers, until it is none
    PoolExhausted,
)
"""What a database that is away for a while is known by."""

FIRST_WAIT_S: Final = 0.1


class NobodyWaits(Exception):
    """The write was given up, since its attempt is over."""


@dataclass(frozen=True)
class Lease:
    """Whose writes they are: an attempt at a job, which is held for `lease_s` at a time."""

    job_id: str
    attempt: int
    lease_s: float


@dataclass(frozen=True)
class PatientWrites:
    """Writes of one attempt; `over` is set when it does not wait for them any more."""

    database: Database
    over: threading.Event
    longest_wait_s: float = longest_wait_s(LEASE_S)
    committed: Callable[[], object] = lambda: None
    """Called after each transaction."""

    def write(self, action: Callable[[Session], T]) -> T:
        """Do one transaction; where the database is away, try again. Raises NobodyWaits."""
        wait_s = FIRST_WAIT_S
        while True:
            try:
                with self.database.write() as session:
                    done = action(session)
                self.committed()
                return done
            except AWAY as error:
                cause = str(getattr(error, "orig", None) or error).partition("\n")[0]
                log.warning("the database is away, next try in %g s: %s", wait_s, cause)
                if self.over.wait(wait_s):
                    raise NobodyWaits from error
                wait_s = min(2 * wait_s, self.longest_wait_s)
