"""One result for all who ask at about the same time: asking often costs nothing."""

import asyncio
import time
from collections.abc import Callable
from contextvars import Context
from typing import Final, Generic, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter

from server.errors import Busy

Value = TypeVar("Value")

TTL_S: Final = 1.0
"""How long a result is used, counted from the start of its call."""
MAX_WAIT_S: Final = 10.0


class SharedResult(Generic[Value]):
    """Calls a function in a thread of its own, and shares what it returns or raises for a while.

    Args:
        compute: The function; one call at a time.
        max_wait_s: How long a call is waited for. The call itself goes on.
    """

    def __init__(
        self,
        compute: Callable[[], Value],
        *,
        max_wait_s: float = MAX_WAIT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._compute, self._max_wait_s, self._clock = compute, max_wait_s, clock
        self._thread = CapacityLimiter(1)
        self._call: asyncio.Task[Value] | None = None
        self._began_at = 0.0

    async def get(self) -> Value:
        """The result. Raises what the function raises, and Busy if it takes too long."""
        if self._call is None or (self._call.done() and not self._is_fresh):
            self._began_at = self._clock()
            # An empty context: the call belongs to no single request.
            self._call = asyncio.create_task(self._run(), context=Context())
            self._call.add_done_callback(_retrieve)
        try:
            return await asyncio.wait_for(asyncio.shield(self._call), self._max_wait_s)
        except TimeoutError:
            if self._call.done():  # the function itself raised it
                raise
            raise Busy from None

    async def _run(self) -> Value:
        return await anyio.to_thread.run_sync(self._compute, limiter=self._thread)

    @property
    def _is_fresh(self) -> bool:
        return self._clock() < self._began_at + TTL_S


def _retrieve(call: asyncio.Task[Value]) -> None:
    """Mark an error as seen: the requests that waited for it may have given up."""
    if not call.cancelled():
        call.exception()
