"""The header Idempotency-Key: a request that is sent again is answered again, and done once."""

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Annotated, Final

from fastapi import Depends, Request
from sqlalchemy.orm import Session

from ampcore.spec import Problem
from ampcore.spec.problems import pointer, shown
from server.deps import principal_of
from server.http.parameters import RequestInvalid
from server.http.responses import replayed
from store import idempotency
from store.database import Database
from store.idempotency import Answer, Keyed

HEADER: Final = "Idempotency-Key"

KEY: Final = re.compile("[!-~]{1,255}")


def answer_once(
    database: Database, request: Keyed | None, make: Callable[[Session], Answer]
) -> Answer:
    """What `make` answers in a transaction, or what the first request with the key was answered.

    An error keeps nothing: the key may be used again. Raises KeyReused, and what `make` raises.
    """
    with database.write() as session:
        if request is not None and (known := idempotency.claim(session, request)) is not None:
            return replayed(known)
        answer = make(session)
        if request is not None:
            idempotency.keep(session, request, answer)
    return answer


async def keyed_of(request: Request) -> Keyed | None:
    """The key of a request, and all that must be the same in a repeat; None without a key.

    Raises RequestInvalid.
    """
    key = request.headers.get(HEADER)
    if key is None:
        return None
    if not KEY.fullmatch(key):
        place = pointer(("header", HEADER))
        expected = "1 to 255 characters of printable ASCII, without spaces"
        raise RequestInvalid([Problem(place, "invalid_value", expected, shown(key))])
    principal = principal_of(request)
    # With the token: an answer is given again to nobody who could not have got it themselves.
    what = f"{request.method} {request.url.path}\n{principal.token_id}\n".encode()
    return Keyed(principal.project, key, sha256(what + await request.body()).hexdigest())


KeyedDep = Annotated[Keyed | None, Depends(keyed_of)]
