"""The Idempotency-Key header: a repeated request gets the stored response and changes nothing."""

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Annotated, Final

from fastapi import Depends, Request
from sqlalchemy.orm import Session

from ampspec.documents.problems import format_value, json_pointer
from ampspec.jobs import Problem
from server.deps import principal_of
from server.errors import RequestInvalid
from server.http.responses import mark_replayed
from store.access import idempotency
from store.access.idempotency import IdempotentRequest, StoredResponse
from store.database import Database

HEADER: Final = "Idempotency-Key"

KEY_PATTERN: Final = re.compile("[!-~]{1,255}")


def respond_once(
    database: Database, request: IdempotentRequest | None, make: Callable[[Session], StoredResponse]
) -> StoredResponse:
    """Call `make` in a transaction and return its response, or the stored one for a repeat.

    After an error nothing is stored, and the key may be used again. Raises KeyReused, and what
    `make` raises.
    """
    with database.write() as session:
        if request is not None and (stored := idempotency.claim(session, request)) is not None:
            return mark_replayed(stored)
        response = make(session)
        if request is not None:
            idempotency.store_response(session, request, response)
    return response


def replay(database: Database, request: IdempotentRequest | None) -> StoredResponse | None:
    """The stored response of a repeat, before work whose errors it must not get; None otherwise.

    Raises KeyReused.
    """
    if request is None:
        return None
    with database.read() as session:
        stored = idempotency.find(session, request)
    return None if stored is None else mark_replayed(stored)


async def read_idempotency_key(request: Request) -> IdempotentRequest | None:
    """The key of a request and the digest of what a repeat must have in common; None without a key.

    Raises RequestInvalid.
    """
    key = request.headers.get(HEADER)
    if key is None:
        return None
    if not KEY_PATTERN.fullmatch(key):
        location = json_pointer(("header", HEADER))
        expected = "1 to 255 characters of printable ASCII, without spaces"
        raise RequestInvalid([Problem(location, "invalid_value", expected, format_value(key))])
    principal = principal_of(request)
    # The digest includes the token: another token must not get the stored response.
    address = "?".join(filter(None, (request.url.path, request.url.query)))
    what = f"{request.method} {address}\n{principal.token_id}\n".encode()
    return IdempotentRequest(
        principal.project, key, sha256(what + await request.body()).hexdigest()
    )


IdempotentRequestDep = Annotated[IdempotentRequest | None, Depends(read_idempotency_key)]
