"""Share threads among the owners of requests: one owner cannot take them all."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import anyio.to_thread

from server.errors import Busy

Value = TypeVar("Value")

MAX_WAIT_S: Final = 20.0
"""A request that has waited for so long is refused with Retry-After."""


class FairLimiter:
    """Slots that owners get in turn. Used only in the event loop.

    Args:
        total: The number of slots.
        per_owner: How many one owner may hold; fewer than `total` leave room for others.
        max_wait_s: How long a slot is waited for.
    """

    def __init__(self, total: int, per_owner: int, *, max_wait_s: float = MAX_WAIT_S) -> None:
        self.total = total
        self._free, self._per_owner, self._max_wait_s = total, per_owner, max_wait_s
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By owner; the owner whose turn is next comes first."""

    @asynccontextmanager
    async def slot(self, owner: str) -> AsyncIterator[None]:
        """Hold a slot. Raises Busy if none is free in time."""
        await self.acquire(owner)
        try:
            yield
        finally:
            self.release(owner)

    async def acquire(self, owner: str) -> None:
        """Take a slot, which `release` gives back. Raises Busy if none is free in time."""
        if self._may_take(owner):
            self._take(owner)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            async with asyncio.timeout(self._max_wait_s):
                await turn
        except BaseException as error:
            self._leave(owner, turn)
            if isinstance(error, TimeoutError):
                raise Busy from None
            raise

    def release(self, owner: str) -> None:
        """Give a slot back to the next owner that waits."""
        self._free += 1
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]
        self._hand_over()

    async def run(self, owner: str, function: Callable[..., Value], *arguments: Any) -> Value:
        """Call a function in a thread that takes a slot. Raises Busy."""
        async with self.slot(owner):
            return await anyio.to_thread.run_sync(function, *arguments)

    def _may_take(self, owner: str) -> bool:
        return self._free > 0 and self._held[owner] < self._per_owner

    def _take(self, owner: str) -> None:
        self._free -= 1
        self._held[owner] += 1

    def _hand_over(self) -> None:
        for owner in list(self._waiting):
            if not self._free:
                return
            if not self._may_take(owner):
                continue
            turns = self._waiting.pop(owner)
            while turns:
                turn = turns.popleft()
                if not turn.done():  # otherwise its request was cancelled in this moment
                    self._take(owner)
                    turn.set_result(None)
                    break
            if turns:
                self._waiting[owner] = turns  # behind the others

    def _leave(self, owner: str, turn: asyncio.Future[None]) -> None:
        """Give up waiting; a slot that was handed over in this moment goes to the next owner."""
        if turn.done() and not turn.cancelled():
            self.release(owner)
            return
        turns = self._waiting.get(owner, deque())
        if turn in turns:
            turns.remove(turn)
        if not turns:
            self._waiting.pop(owner, None)
