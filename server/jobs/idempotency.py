"""The header Idempotency-Key: a request that is sent again is answered again, and done once."""

from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from typing import Annotated, Final

from fastapi import Depends, Header, Request
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from server.deps import PrincipalDep
from store import idempotency
from store.database import Database
from store.idempotency import Answer, Keyed

REPLAYED: Final = {"Idempotency-Replayed": "true"}

Keep = Callable[[Session, Answer], None]
"""To be called with the answer, in the transaction of what it tells."""

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern="^[!-~]+$",
        description="Any text of your own, new for each request: sent again with the same body "
        "within 24 hours, it brings the same answer and does nothing twice.",
    ),
]


def answer_once(
    database: Database, request: Keyed | None, make: Callable[[Keep], Answer]
) -> Answer:
    """What `make` answers, or what the first request with the key was answered.

    An error keeps nothing: the key may be used again. Raises KeyReused and InFlight.
    """
    if request is None:
        return make(lambda _session, _answer: None)
    with database.write() as session:
        begun = idempotency.begin(session, request)
    if isinstance(begun, Answer):
        return Answer(begun.status, begun.headers | REPLAYED, begun.body)
    try:
        return make(lambda session, answer: idempotency.finish(session, request, begun, answer))
    except BaseException:
        with suppress(SQLAlchemyError), database.write() as session:
            idempotency.abandon(session, request, begun)
        raise


async def _keyed(request: Request, principal: PrincipalDep, key: Key = None) -> Keyed | None:
    if key is None:
        return None
    what = f"{request.method} {request.url.path}\n".encode() + await request.body()
    return Keyed(principal.project, key, sha256(what).hexdigest())


KeyedDep = Annotated[Keyed | None, Depends(_keyed)]
