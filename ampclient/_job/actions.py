"""Actions on a job by its id: each is one request."""

from collections.abc import Mapping
from typing import Any, Generic, Unpack
from uuid import uuid4

from ampclient import _endpoints as endpoints
from ampclient._http.operations import M, operation
from ampclient._http.options import RequestOptions
from ampclient._job.job import JobResource
from ampclient._job.view import JobView
from ampclient._job.wait import J


class JobActions(JobResource[M, J], Generic[M, J]):
    """The actions of `Job`, for a job or its id; see there for what they do and raise."""

    @operation
    async def cancel(self, job: str | JobView, **options: Unpack[RequestOptions]) -> J:
        """Request cancellation of a job (or its id); see `Job.cancel`."""
        return await self._send(endpoints.cancel_job(endpoints.job_id_of(job)), options)

    @operation
    async def pause(self, job: str | JobView, **options: Unpack[RequestOptions]) -> J:
        """Request a pause of a job (or its id) at a checkpoint; see `Job.pause`."""
        return await self._send(endpoints.pause_job(endpoints.job_id_of(job)), options)

    @operation
    async def resume(self, job: str | JobView, **options: Unpack[RequestOptions]) -> J:
        """Queue a paused job (or its id) again; see `Job.resume`."""
        return await self._send(endpoints.resume_job(endpoints.job_id_of(job)), options)

    @operation
    async def retry(self, job: str | JobView, **options: Unpack[RequestOptions]) -> J:
        """Queue a failed or cancelled job (or its id) again; see `Job.retry`."""
        return await self._send(endpoints.retry_job(endpoints.job_id_of(job)), options)

    @operation
    async def profile(
        self, job: str | JobView, steps: int = 10, **options: Unpack[RequestOptions]
    ) -> J:
        """Profile the next steps of a running job (or its id); see `Job.profile`."""
        return await self._send(endpoints.profile_job(endpoints.job_id_of(job), steps), options)

    @operation
    async def clone(
        self,
        job: str | JobView,
        set: Mapping[str, Any] | None = None,  # noqa: A002 - the word of the API and of ampctl
        *,
        idempotency_key: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> J:
        """Queue a new job with the spec of a job (or its id), and changes; see `Job.clone`."""
        key = idempotency_key or str(uuid4())
        request = endpoints.clone_job(endpoints.job_id_of(job), set or {}, key)
        return await self._send(request, options)

    @operation
    async def extend(
        self,
        job: str | JobView,
        epochs: int,
        *,
        idempotency_key: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> J:
        """Queue a new job that continues a succeeded one (or its id); see `Job.extend`."""
        key = idempotency_key or str(uuid4())
        request = endpoints.extend_job(endpoints.job_id_of(job), epochs, key)
        return await self._send(request, options)

    @operation
    async def explain(
        self,
        job: str | JobView,
        step: int,
        *,
        idempotency_key: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> J:
        """Queue a new job that repeats a step of a job (or its id); see `Job.explain`."""
        key = idempotency_key or str(uuid4())
        request = endpoints.explain_step(endpoints.job_id_of(job), step, key)
        return await self._send(request, options)

    @operation
    async def edit(
        self,
        job: str | JobView,
        *,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        priority: int | None = None,
        **options: Unpack[RequestOptions],
    ) -> J:
        """Change the name, the labels or the priority of a job (or its id); see `Job.edit`."""
        changes = endpoints.job_changes(name=name, labels=labels, priority=priority)
        return await self._send(endpoints.edit_job(endpoints.job_id_of(job), changes), options)

    @operation
    async def delete(
        self, job: str | JobView, *, permanent: bool = False, **options: Unpack[RequestOptions]
    ) -> None:
        """Delete a job (or its id) with its records and files; see `Job.delete`."""
        request = endpoints.delete_job(endpoints.job_id_of(job), permanent=permanent)
        await self._transport.send(request, **options)

    @operation
    async def restore(self, job: str | JobView, **options: Unpack[RequestOptions]) -> J:
        """Take a deleted job (or its id) out of the trash. Raises NotFound after its time there.

        `list(trash=True)` lists what can be restored, and `purge_at` says until when.
        """
        return await self._send(endpoints.restore_job(endpoints.job_id_of(job)), options)

    async def _send(self, request: endpoints.JsonRequest[JobView], options: RequestOptions) -> J:
        return self._bind(await self._transport.send(request, **options))
