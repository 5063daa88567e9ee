"""Batch concurrent requests: one call, and so one transaction, handles many of them.

While one batch is being handled, new requests wait for the next one. So the response to a request
never contains data that was read before the request arrived.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Final, Generic, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter

Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_BATCH: Final = 100
"""The maximum number of items in one batch, so that later ones do not wait for long."""


class RequestBatcher(Generic[Item, Result]):
    """Handles the requests of one event loop in batches.

    Args:
        handle_batch: called in a thread with the items of a batch; returns their results in order.
            An exception in the results is raised for its item, and one that it raises for all.
    """

    def __init__(
        self, handle_batch: Callable[[Sequence[Item]], Sequence[Result | Exception]]
    ) -> None:
        self._handle_batch = handle_batch
        self._thread = CapacityLimiter(1)
        self._pending: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._task: asyncio.Task[None] | None = None

    async def submit(self, item: Item) -> Result:
        """The result for the item, from a batch that starts after this call."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._pending.append((item, future))
        if self._task is None or self._task.done():
            # An empty context: log lines of a batch belong to no single request.
            self._task = asyncio.create_task(self._run_batches(), context=Context())
        return await future

    async def _run_batches(self) -> None:
        while self._pending:
            batch = [self._pending.popleft() for _ in range(min(len(self._pending), MAX_BATCH))]
            items = [item for item, _ in batch]
            results: Sequence[Result | Exception]
            try:
                results = await anyio.to_thread.run_sync(
                    self._handle_batch, items, limiter=self._thread
                )
            except Exception as error:
                results = [error] * len(batch)
            for (_, future), result in zip(batch, results, strict=True):
                if future.done():  # its request was cancelled
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)
