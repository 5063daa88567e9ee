"""Batch concurrent requests: one call, and so one transaction, handles many of them.

While one batch is being handled, new requests wait for the next one. So the response to a request
never contains data that was read before the request arrived.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_BATCH: Final = 100
"""The maximum number of items in one batch, so that later ones do not wait for long."""


class RequestBatcher(Generic[Item, Result]):
    """Handles the requests of one event loop in batches, in a thread that it keeps.

    Args:
        handle_batch: called in a thread with the items of a batch; returns their results in order.
            An exception in the results is raised for its item, and one that it raises for all.
    """

    def __init__(
        self, handle_batch: Callable[[Sequence[Item]], Sequence[Result | Exception]]
    ) -> None:
        self._handle_batch = handle_batch
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="request-batches")
        self._pending: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._is_running = False

    async def submit(self, item: Item) -> Result:
        """The result for the item, from a batch that starts after this call."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._pending.append((item, future))
        if not self._is_running:
            self._is_running = True
            # An empty context: log lines of a batch belong to no single request.
            loop.call_soon(self._start_batch, loop, context=Context())
        return await future

    def _start_batch(self, loop: asyncio.AbstractEventLoop) -> None:
        batch = [self._pending.popleft() for _ in range(min(len(self._pending), MAX_BATCH))]
        self._thread.submit(self._run_batch, loop, batch)

    def _run_batch(
        self, loop: asyncio.AbstractEventLoop, batch: Sequence[tuple[Item, asyncio.Future[Result]]]
    ) -> None:
        """Handle a batch in the thread, and return its results to the event loop."""
        results: Sequence[Result | Exception]
        try:
            results = self._handle_batch([item for item, _ in batch])
        except Exception as error:
            results = [error] * len(batch)
        with suppress(RuntimeError):  # the loop was closed meanwhile, and its requests with it
            loop.call_soon_threadsafe(self._finish_batch, loop, batch, results)

    def _finish_batch(
        self,
        loop: asyncio.AbstractEventLoop,
        batch: Sequence[tuple[Item, asyncio.Future[Result]]],
        results: Sequence[Result | Exception],
    ) -> None:
        for (_, future), result in zip(batch, results, strict=True):
            if future.done():  # its request was cancelled
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
        if self._pending:
            self._start_batch(loop)
        else:
            self._is_running = False
