"""The header Idempotency-Key: a request that is sent again is answered again, and done once."""

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Final

from fastapi import Request
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from ampcore.spec import Problem
from ampcore.spec.problems import pointer, shown
from server.http.parameters import RequestInvalid
from store import idempotency
from store.database import Database
from store.idempotency import Answer, Keep, Keyed

HEADER: Final = "Idempotency-Key"
REPLAYED: Final = {"Idempotency-Replayed": "true"}

KEY: Final = re.compile("[!-~]{1,255}")


async def answer_once(
    database: Database, request: Keyed | None, make: Callable[[Keep], Awaitable[Answer]]
) -> Answer:
    """What `make` answers, or what the first request with the key was answered.

    An error keeps nothing: the key may be used again. Raises KeyReused and InFlight.
    """
    if request is None:
        return await make(lambda _session, _answer: None)
    begun = await run_in_threadpool(_begin, database, request)
    if isinstance(begun, Answer):
        return Answer(begun.status, begun.headers | REPLAYED, begun.body)
    try:
        return await make(partial(_finish, request, begun))
    except Exception:
        await run_in_threadpool(_abandon, database, request, begun)
        raise


def _begin(database: Database, request: Keyed) -> Answer | datetime:
    with database.write() as session:
        return idempotency.begin(session, request)


def _finish(request: Keyed, begun: datetime, session: Session, answer: Answer) -> None:
    idempotency.finish(session, request, begun, answer)


def _abandon(database: Database, request: Keyed, begun: datetime) -> None:
    with suppress(SQLAlchemyError), database.write() as session:
        idempotency.abandon(session, request, begun)


async def keyed_of(request: Request, project: str) -> Keyed | None:
    """The key of a request, in a project; None without one. Raises RequestInvalid."""
    key = request.headers.get(HEADER)
    if key is None:
        return None
    if not KEY.fullmatch(key):
        place = pointer(("header", HEADER))
        expected = "1 to 255 characters of printable ASCII, without spaces"
        raise RequestInvalid([Problem(place, "invalid_value", expected, shown(key))])
    what = f"{request.method} {request.url.path}\n".encode() + await request.body()
    return Keyed(project, key, sha256(what).hexdigest())
