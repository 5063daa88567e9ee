"""What answers that go on while a job runs have in common."""

from collections.abc import Awaitable, Callable
from typing import Final

from fastapi import Request

from server.access import credentials
from server.access.door import address_of
from server.access.keyring import Keyring

AS_IT_COMES: Final = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # a proxy must not keep it back
    "X-Content-Type-Options": "nosniff",  # nor a browser take what was printed for a page
}
PATIENCE_S: Final = 60.0
"""A client that takes nothing for so long is cut off; it may come again and go on."""


def still_allowed(request: Request, keyring: Keyring) -> Callable[[], Awaitable[bool]]:
    """Asks whether who sent the request may still be told."""

    async def allowed() -> bool:
        credential = credentials.read(request.scope)
        return await keyring.ask(credential, address_of(request.scope)) is not None

    return allowed
