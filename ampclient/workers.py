"""`client.workers`: who trains, and how one of them is sent home."""

from ampclient import calls
from ampclient.transport import Transport
from ampclient.views import Worker


class Workers:
    """The workers of a server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> list[Worker]:
        """Every worker that the server knows, online or not."""
        return self._transport.send(calls.list_workers())

    def get(self, worker_id: str) -> Worker:
        """One worker. Raises NotFound."""
        return self._transport.send(calls.get_worker(worker_id))

    def drain(self, worker_id: str) -> Worker:
        """Ask a worker to take no more jobs, to give back those it has at a checkpoint, and to end.

        For admins. Raises Forbidden, NotFound.
        """
        return self._transport.send(calls.drain_worker(worker_id))
