"""`client.workers`: list the workers, drain one."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Unpack

from ampclient import _endpoints as endpoints
from ampclient._http.operations import M, Operations, operation, short_list
from ampclient._http.options import RequestOptions
from ampclient._http.pages import read_pages
from ampspec.api.workers import Worker
from ampspec.old_names import old_attributes, one_class_for


class Workers(Operations[M]):
    """The workers of a server."""

    @short_list
    def list(
        self, *, limit: int | None = None, **options: Unpack[RequestOptions]
    ) -> AsyncGenerator[Worker, None]:
        """All workers that the server knows, online or not; at most `limit`.

        What packages offer is left out of `hardware`; `get` has it.
        """
        return read_pages(
            self._transport, endpoints.list_workers, options, page_size=100, limit=limit
        )

    @operation
    async def get(self, worker_id: str, **options: Unpack[RequestOptions]) -> Worker:
        """One worker. Raises NotFound."""
        return await self._transport.send(endpoints.get_worker(worker_id), **options)

    @operation
    async def drain(
        self,
        worker_id: str,
        *,
        drain_timeout_s: float | None = None,
        **options: Unpack[RequestOptions],
    ) -> Worker:
        """Ask a worker to take no new jobs, to checkpoint and requeue its jobs, and to exit.

        For admins. `unsaved` of the result says which steps are trained again if it cannot store
        new checkpoints in time. Raises Forbidden, NotFound.

        Args:
            worker_id: The worker's id.
            drain_timeout_s: Seconds for which it may store the files of its jobs; None: as long as
                its setting says.
            **options: Those of every request.
        """
        return await self._transport.send(
            endpoints.drain_worker(worker_id, drain_timeout_s), **options
        )


if not TYPE_CHECKING:
    __getattr__ = old_attributes(__name__, one_class_for("Workers"))
