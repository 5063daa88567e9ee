"""`client.runs`: track trainings that run elsewhere."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Unpack
from uuid import uuid4

from ampclient import _endpoints as endpoints
from ampclient._http.operations import M, Sync, operation, run_sync
from ampclient._http.options import RequestOptions
from ampclient._job.job import Job, JobResource
from ampclient._job.wait import J
from ampspec.api.runs import RunStatus
from ampspec.old_names import old_attributes, one_class_for

if TYPE_CHECKING:
    from ampclient.tracking.run import TrackedRun


class Runs(JobResource[M, J], Generic[M, J]):
    """The tracked runs of a server: `track`, and the requests that it sends."""

    @operation
    async def create(
        self,
        spec: Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> J:
        """Create a tracked run; `spec` has the fields of TrackedSpec. Returns a running job.

        Raises InvalidRequest, and QuotaExceeded when the project has too many tracked runs.
        """
        request = endpoints.create_run(spec, idempotency_key or str(uuid4()))
        return self._bind(await self._transport.send(request, **options))

    @operation
    async def upload(
        self,
        run_id: str,
        first_entry: int,
        entries: Sequence[Mapping[str, Any]],
        *,
        total_steps: int | None = None,
        **options: Unpack[RequestOptions],
    ) -> RunStatus:
        """Store entries, numbered from `first_entry` on; those that are stored already are skipped.

        Raises Conflict if the run has ended, or if entries before these are missing.
        """
        request = endpoints.upload_entries(run_id, first_entry, entries, total_steps)
        return await self._transport.send(request, **options)

    @operation
    async def finish(
        self,
        run_id: str,
        state: Literal["succeeded", "failed", "cancelled"],
        *,
        entries: int,
        message: str | None = None,
        summary: Mapping[str, Any] | None = None,
        **options: Unpack[RequestOptions],
    ) -> J:
        """End a run of which `entries` entries are stored. Raises Conflict if they are not."""
        end = {"state": state, "entries": entries, "message": message, "summary": summary or {}}
        return self._bind(await self._transport.send(endpoints.finish_run(run_id, end), **options))

    def track(
        self: "Runs[Sync, Job]",
        name: str = "run",
        *,
        labels: Mapping[str, str] | None = None,
        policy: str | None = None,
        model: str | None = None,
        config: Mapping[str, Any] | None = None,
        total_steps: int | None = None,
        buffer_bytes: int | None = None,
        flush_timeout_s: float | None = None,
    ) -> "TrackedRun":
        """Create a run, and send its steps from a thread of this process.

            with client.runs.track("baseline", policy="mixed_float16") as run:
                model.fit(x, y, callbacks=[ampcore.TelemetryCallback(run)])

        Args:
            name: The name of the run.
            labels: Its labels.
            policy: Its precision, for example `mixed_float16`.
            model: The name of its model.
            config: Other settings, for comparisons.
            total_steps: The number of rows that it will have.
            buffer_bytes: How much is kept, compressed, while the server cannot be reached.
            flush_timeout_s: How long the end of the run waits for the server.

        Raises:
            AmpcoreError: The run could not be created. Later no error is raised.
            TypeError: The client is an AsyncClient.
        """
        if self._mode is not Sync:
            raise TypeError("track sends steps from a thread: it needs the synchronous Client")
        from ampclient.tracking import run as tracking  # imports NumPy
        from ampclient.tracking.run_api import RunApi

        spec: dict[str, Any] = {"name": name, "labels": dict(labels or {})}
        spec["config"] = dict(config or {})
        if policy is not None:
            spec["precision"] = {"policy": policy}
        if model is not None:
            spec["model"] = {"kind": model}
        request = endpoints.create_run(spec, str(uuid4()))
        view = run_sync(self._transport.send(request))
        run = tracking.TrackedRun(
            RunApi(self._transport, view.id),
            view.id,
            f"{self._transport.connection.url}/#/jobs/{view.id}",
            buffer_bytes=tracking.BUFFER_BYTES if buffer_bytes is None else buffer_bytes,
            flush_timeout_s=(
                tracking.FLUSH_TIMEOUT_S if flush_timeout_s is None else flush_timeout_s
            ),
        )
        if total_steps is not None:
            run.expect_steps(total_steps)
        return run


if not TYPE_CHECKING:
    __getattr__ = old_attributes(__name__, one_class_for("Runs"))
