"""What answers that go on while a job runs have in common."""

from collections.abc import Awaitable, Callable
from typing import Final

from fastapi import Request

from server.access import credentials
from server.access.door import address_of
from server.access.keyring import Keyring
from server.errors import DATABASE_ERRORS, TooManyRequests
from store.database_errors import is_outage

AS_IT_COMES: Final = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # a proxy must not keep it back
    "X-Content-Type-Options": "nosniff",  # nor a browser take what was printed for a page
}
PATIENCE_S: Final = 60.0
"""A client that takes nothing for so long is cut off; it may come again and go on."""


def still_allowed(request: Request, keyring: Keyring) -> Callable[[], Awaitable[bool]]:
    """Asks whether who sent the request may still be told; of the database, now and then."""

    async def allowed() -> bool:
        try:
            credential = credentials.read(request.scope)
            if keyring.recall(credential) is not None:
                return True
            return await keyring.ask(credential, address_of(request.scope)) is not None
        except TooManyRequests:
            return False
        except DATABASE_ERRORS as error:
            return is_outage(error)  # asked again when it is back

    return allowed
