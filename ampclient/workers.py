"""`client.workers`: list the workers, drain one."""

from typing import Unpack

from ampclient import requests
from ampclient._request_options import RequestOptions
from ampclient._sync_async import Async, AsyncRaw, Sync, SyncRaw, operation
from ampclient._transport import Transport
from ampspec.api.workers import Worker


class BaseWorkers:
    """The workers of a server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @operation
    async def list(self, **options: Unpack[RequestOptions]) -> list[Worker]:
        """All workers that the server knows, online or not.

        What packages offer is left out of `hardware`; `get` has it.
        """
        workers: list[Worker] = []
        cursor = None
        while True:
            page = await self._transport.send(requests.list_workers(cursor), **options)
            workers += page.items
            cursor = page.next_cursor
            if cursor is None:
                return workers

    @operation
    async def get(self, worker_id: str, **options: Unpack[RequestOptions]) -> Worker:
        """One worker. Raises NotFound."""
        return await self._transport.send(requests.get_worker(worker_id), **options)

    @operation
    async def drain(
        self,
        worker_id: str,
        *,
        timeout_s: float | None = None,
        **options: Unpack[RequestOptions],
    ) -> Worker:
        """Ask a worker to take no new jobs, to checkpoint and requeue its jobs, and to exit.

        For admins. `unsaved` of the result says which steps are trained again if it cannot store
        new checkpoints in time. Raises Forbidden, NotFound.

        Args:
            worker_id: The worker's id.
            timeout_s: Seconds for which it may store the files of its jobs; None: as long as its
                setting says.
            **options: Those of every request.
        """
        return await self._transport.send(requests.drain_worker(worker_id, timeout_s), **options)


class Workers(Sync, BaseWorkers):
    """The workers of a server."""


class AsyncWorkers(Async, BaseWorkers):
    """The workers of a server."""


class RawWorkers(SyncRaw, BaseWorkers):
    """The same operations, each with its HTTP response."""


class AsyncRawWorkers(AsyncRaw, BaseWorkers):
    """The same operations for asyncio, each with its HTTP response."""
