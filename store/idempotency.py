"""A request with a key is carried out once: its answer is kept, and given again to a repeat.

All of it is in the transaction of the request itself: `claim` writes the key down, for which a
second request at the same time waits, and `keep` stores the answer. So there is an answer if, and
only if, there is what it tells of, whatever becomes of the one who asked and of the server.
"""

from dataclasses import dataclass
from typing import Any, Final, cast

from sqlalchemy import CursorResult, delete, select, tuple_, update
from sqlalchemy.orm import Session

from store.clock import after, now
from store.rows import insert_new
from store.tables import IdempotencyKey

KEPT_S: Final = 86_400.0
"""For so long an answer is given again."""


class KeyReused(Exception):
    """The key belongs to another request: another body, another path, or another token."""


@dataclass(frozen=True)
class Keyed:
    """A request that has a key; the digest is over all that must be the same in a repeat."""

    project: str
    key: str
    digest: str


@dataclass(frozen=True)
class Answer:
    """What a request was answered with. No secret belongs into it: it is stored."""

    status: int
    headers: dict[str, str]
    body: str


def find(session: Session, request: Keyed) -> Answer | None:
    """The answer that the request has got before. Raises KeyReused."""
    return _answer(request, session.scalars(_row(request)).one_or_none())


def claim(session: Session, request: Keyed) -> Answer | None:
    """Take the key for this transaction; the answer, if the request was carried out before.

    Waits for a transaction that has the key now. Raises KeyReused.
    """
    statement = insert_new(session, IdempotencyKey, **vars(request))
    if session.execute(statement.returning(IdempotencyKey.key)).one_or_none() is not None:
        return None
    row = _row(request).with_for_update().execution_options(populate_existing=True)
    return _answer(request, session.scalars(row).one_or_none())


def keep(session: Session, request: Keyed, answer: Answer) -> None:
    """Store the answer of a request whose key is claimed."""
    statement = update(IdempotencyKey).where(_place() == (request.project, request.key))
    session.execute(
        statement.values(**vars(answer), created_at=now()).execution_options(
            synchronize_session=False
        )
    )


def forget_old(session: Session, *, kept_s: float = KEPT_S) -> int:
    """Delete the keys that were first used so long ago; returns how many."""
    statement = delete(IdempotencyKey).where(IdempotencyKey.created_at < after(-kept_s))
    done = session.execute(statement.execution_options(synchronize_session=False))
    return cast(CursorResult[Any], done).rowcount


def _answer(request: Keyed, row: IdempotencyKey | None) -> Answer | None:
    if row is None:
        return None
    if row.digest != request.digest:
        raise KeyReused(f"The Idempotency-Key {request.key!r} was sent with another request.")
    if row.status is None:  # left by a server of an older version, which has ended since
        return None
    return Answer(row.status, row.headers or {}, row.body or "")


def _row(request: Keyed) -> Any:
    return select(IdempotencyKey).where(_place() == (request.project, request.key))


def _place() -> Any:
    return tuple_(IdempotencyKey.project, IdempotencyKey.key)
