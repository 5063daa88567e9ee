"""`client.workers`: who trains, and how one of them is sent home."""

from ampclient import calls
from ampclient.faces import Async, Sync, operation
from ampclient.transport import Transport
from ampclient.views import Worker


class AnyWorkers:
    """The workers of a server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @operation
    async def list(self) -> list[Worker]:
        """Every worker that the server knows, online or not."""
        return await self._transport.send(calls.list_workers())

    @operation
    async def get(self, worker_id: str) -> Worker:
        """One worker. Raises NotFound."""
        return await self._transport.send(calls.get_worker(worker_id))

    @operation
    async def drain(self, worker_id: str) -> Worker:
        """Ask a worker to take no more jobs, to give back those it has at a checkpoint, and to end.

        For admins. Raises Forbidden, NotFound.
        """
        return await self._transport.send(calls.drain_worker(worker_id))


class Workers(Sync, AnyWorkers):
    """The workers of a server."""


class AsyncWorkers(Async, AnyWorkers):
    """The workers of a server."""
