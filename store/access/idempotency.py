"""Idempotency keys: a request with a key is executed once, and a repeat gets the stored response.

`claim` and `store_response` belong to the transaction of the request itself. So the response is
stored if and only if the change is committed, even if the client or the server dies. A second
request with the same key waits in `claim` until the first one has ended.
"""

from dataclasses import dataclass
from typing import Any, Final, cast

from sqlalchemy import CursorResult, delete, select, tuple_, update
from sqlalchemy.orm import Session

from store.clock import from_now, now
from store.rows import insert_if_absent
from store.tables import IdempotencyKey

RETENTION_S: Final = 86_400.0
"""How long a response is stored."""


class KeyReused(Exception):
    """The key belongs to another request: another body, another path, or another token."""


@dataclass(frozen=True)
class IdempotentRequest:
    """A request with a key; `digest` covers everything that must be the same in a repeat."""

    project: str
    key: str
    digest: str


@dataclass(frozen=True)
class StoredResponse:
    """A response that is stored as it is, so it must not contain a secret."""

    status: int
    headers: dict[str, str]
    body: str


def find(session: Session, request: IdempotentRequest) -> StoredResponse | None:
    """The stored response of the request, or None. Raises KeyReused."""
    return _stored_response(request, session.scalars(_select_row(request)).one_or_none())


def claim(session: Session, request: IdempotentRequest) -> StoredResponse | None:
    """Claim the key for this transaction; the stored response if the request is a repeat.

    Waits for a transaction that holds the key. Raises KeyReused.
    """
    statement = insert_if_absent(session, IdempotencyKey, **vars(request))
    if session.execute(statement.returning(IdempotencyKey.key)).one_or_none() is not None:
        return None
    row = _select_row(request).with_for_update().execution_options(populate_existing=True)
    return _stored_response(request, session.scalars(row).one_or_none())


def store_response(session: Session, request: IdempotentRequest, response: StoredResponse) -> None:
    """Store the response to a request whose key is claimed."""
    statement = update(IdempotencyKey).where(_key_columns() == (request.project, request.key))
    session.execute(
        statement.values(**vars(response), created_at=now()).execution_options(
            synchronize_session=False
        )
    )


def delete_expired(session: Session, *, kept_s: float = RETENTION_S) -> int:
    """Delete expired keys; returns how many."""
    statement = delete(IdempotencyKey).where(IdempotencyKey.created_at < from_now(-kept_s))
    done = session.execute(statement.execution_options(synchronize_session=False))
    return cast(CursorResult[Any], done).rowcount


def _stored_response(
    request: IdempotentRequest, row: IdempotencyKey | None
) -> StoredResponse | None:
    if row is None:
        return None
    if row.digest != request.digest:
        raise KeyReused(f"The Idempotency-Key {request.key!r} was sent with another request.")
    if row.status is None:  # a request that a server of an older version did not finish
        return None
    return StoredResponse(row.status, row.headers or {}, row.body or "")


def _select_row(request: IdempotentRequest) -> Any:
    return select(IdempotencyKey).where(_key_columns() == (request.project, request.key))


def _key_columns() -> Any:
    return tuple_(IdempotencyKey.project, IdempotencyKey.key)
