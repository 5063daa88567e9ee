"""A request with a key is carried out once: its answer is kept, and given again to a repeat.

Three steps, each in a transaction of its own where it matters: `begin` writes the key down, so that
a second request at the same time sees that the first is under way; `finish` stores the answer
together with what the request has made; `abandon` gives the key free after an error.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast

from sqlalchemy import CursorResult, delete, select, tuple_, update
from sqlalchemy.orm import Session

from store.clock import after, now
from store.rows import insert_new
from store.tables import IdempotencyKey

KEPT_S: Final = 86_400.0
"""For so long an answer is given again."""
STALE_S: Final = 60.0
"""Whoever has not finished a request in so long has crashed: another one may take it over."""
TRIES: Final = 5


class KeyReused(Exception):
    """The key belongs to another request: another body, or another path."""


class InFlight(Exception):
    """The first request with the key is under way."""

    retry_after_s = 1.0


class TakenOver(InFlight):
    """Another request took the key over, since this one was silent for too long."""


@dataclass(frozen=True)
class Keyed:
    """A request that has a key; the digest is over all that must be the same in a repeat."""

    project: str
    key: str
    digest: str


@dataclass(frozen=True)
class Answer:
    """What a request was answered with."""

    status: int
    headers: dict[str, str]
    body: str


Keep = Callable[[Session, Answer], None]
"""To be called with the answer, in the transaction of what it tells."""


def begin(session: Session, request: Keyed) -> Answer | datetime:
    """Write down that a request is under way; to be committed before its work begins.

    Returns the answer that an earlier one has got, else the moment by which `finish` and `abandon`
    know whose the key is. Raises KeyReused, or InFlight.
    """
    for _ in range(TRIES):
        if (begun := _insert(session, request) or _take_over(session, request)) is not None:
            return begun
        row = session.scalars(_row(request), execution_options={"populate_existing": True}).first()
        if row is None:  # given free just now
            continue
        if row.digest != request.digest:
            raise KeyReused(f"The Idempotency-Key {request.key!r} was sent with another request.")
        if row.status is not None:
            return Answer(row.status, row.headers or {}, row.body or "")
        break
    raise InFlight(f"The first request with the Idempotency-Key {request.key!r} is under way.")


def finish(session: Session, request: Keyed, begun: datetime, answer: Answer) -> None:
    """Keep the answer; in the transaction of what it tells. Raises TakenOver."""
    statement = update(IdempotencyKey).where(*_own(request, begun)).values(**vars(answer))
    done = session.execute(statement.execution_options(synchronize_session=False))
    if cast(CursorResult[Any], done).rowcount != 1:
        raise TakenOver(f"Another request took over the Idempotency-Key {request.key!r}.")


def abandon(session: Session, request: Keyed, begun: datetime) -> None:
    """The request came to nothing: its key may be used again, with another body too."""
    statement = delete(IdempotencyKey).where(*_own(request, begun))
    session.execute(statement.execution_options(synchronize_session=False))


def forget_old(session: Session, *, kept_s: float = KEPT_S) -> int:
    """Delete the keys that were first used so long ago; returns how many."""
    statement = delete(IdempotencyKey).where(IdempotencyKey.created_at < after(-kept_s))
    done = session.execute(statement.execution_options(synchronize_session=False))
    return cast(CursorResult[Any], done).rowcount


def _insert(session: Session, request: Keyed) -> datetime | None:
    """The moment of the row that was not there before."""
    statement = insert_new(session, IdempotencyKey, **vars(request))
    return session.scalars(statement.returning(IdempotencyKey.created_at)).one_or_none()


def _take_over(session: Session, request: Keyed) -> datetime | None:
    """The moment from which the row of a request that crashed is ours."""
    stale = IdempotencyKey.created_at < after(-STALE_S)
    statement = (
        update(IdempotencyKey)
        .where(*_place(request), _open(request), stale)
        .values(created_at=now())
        .returning(IdempotencyKey.created_at)
        .execution_options(synchronize_session=False)
    )
    return session.scalars(statement).one_or_none()


def _row(request: Keyed) -> Any:
    return select(IdempotencyKey).where(*_place(request))


def _place(request: Keyed) -> tuple[Any, ...]:
    place = tuple_(IdempotencyKey.project, IdempotencyKey.key)
    return (place == (request.project, request.key),)


def _open(request: Keyed) -> Any:
    return (IdempotencyKey.digest == request.digest) & IdempotencyKey.status.is_(None)


def _own(request: Keyed, begun: datetime) -> tuple[Any, ...]:
    return (*_place(request), _open(request), IdempotencyKey.created_at == begun)
