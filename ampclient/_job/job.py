"""`Job` and `AsyncJob`: a view of a job, with the operations on it."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Generic, Unpack
from uuid import uuid4

from ampclient import _endpoints as endpoints
from ampclient._http.deprecation import renamed, warn_deprecated
from ampclient._http.operations import Async, AsyncRaw, M, Operations, Sync, SyncRaw, operation
from ampclient._http.options import RequestOptions
from ampclient._http.retry import RETRY_TIMEOUT_S
from ampclient._job.history import JobHistory
from ampclient._job.steps import JobSteps
from ampclient._job.view import JobView
from ampclient._job.wait import POLL_S, J, wait_until


class JobResource(Operations[M], Generic[M, J]):
    """Has operations that return jobs of its own mode."""

    def _bind(self, view: JobView) -> J:
        job_class: Any = AsyncJob if self._mode.is_async else Job
        job: J = job_class.bind(view, self._transport)
        return job


class BaseJob(JobSteps[M], JobHistory[M], JobResource[M, J], Generic[M, J]):
    """An immutable view of a job; operations that change the job return a new view."""

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The normalised spec. Lists contain it only if `fields` asks for it."""
        return self._fetch_spec() if self.listed_spec is None else self.listed_spec

    def _fetch_spec(self) -> dict[str, Any]:
        return self._bound_view.spec  # raises SpecNotLoaded

    @operation
    async def refresh(
        self, *, retry_timeout_s: float = RETRY_TIMEOUT_S, **options: Unpack[RequestOptions]
    ) -> J:
        """Fetch the job again; requests are retried for about `retry_timeout_s`."""
        return await self._send(
            endpoints.get_job(self.id), retry_timeout_s=retry_timeout_s, **options
        )

    @operation
    @renamed(timeout="timeout_s")
    async def wait(
        self,
        timeout_s: float | None = None,
        *,
        progress: bool = False,
        on_progress: Callable[[J], object] | None = None,
        raise_on_failure: bool = False,
        poll_s: float = POLL_S,
    ) -> J:
        """Wait until the job has succeeded, failed or been cancelled; a paused job has not ended.

        Args:
            timeout_s: After so long WaitTimeout is raised; the job keeps running. None: no limit.
            progress: Whether to show bars (lines, if standard error is not a terminal).
            on_progress: Called with each view of the job.
            raise_on_failure: Whether any end other than success raises JobFailed.
            poll_s: The interval between two requests.

        Raises:
            WaitTimeout: `timeout_s` has passed.
            JobFailed: The job failed or was cancelled, and `raise_on_failure` is set.
        """
        alone: list[J] = [self]  # type: ignore[list-item]  # Job and AsyncJob are J themselves
        progress, on_progress = progress_options(progress, on_progress)
        [ended] = await wait_until(
            alone,
            timeout_s=timeout_s,
            progress=progress,
            on_progress=on_progress,
            raise_on_failure=raise_on_failure,
            poll_s=poll_s,
        )
        return self._bind(ended._bound_view)

    @operation
    async def cancel(self, **options: Unpack[RequestOptions]) -> J:
        """Request cancellation; `wait` returns once it has ended. Raises Conflict if ended."""
        return await self._send(endpoints.cancel_job(self.id), **options)

    @operation
    async def pause(self, **options: Unpack[RequestOptions]) -> J:
        """Request a pause at a checkpoint; a queued job is paused immediately.

        Raises Conflict if it has ended or is being cancelled.
        """
        return await self._send(endpoints.pause_job(self.id), **options)

    @operation
    async def profile(self, steps: int = 10, **options: Unpack[RequestOptions]) -> J:
        """Profile the next steps of the running job; `profile_report` returns the result.

        Args:
            steps: How many steps to profile, 1 to 200.
            options: Of the request.

        Raises:
            Conflict: The job is not running.
        """
        return await self._send(endpoints.profile_job(self.id, steps), **options)

    @operation
    async def resume(self, **options: Unpack[RequestOptions]) -> J:
        """Queue the paused job again; it resumes from its checkpoint.

        Raises Conflict if it is not paused.
        """
        return await self._send(endpoints.resume_job(self.id), **options)

    @operation
    async def retry(self, **options: Unpack[RequestOptions]) -> J:
        """Queue a failed or cancelled job again; its steps, events and files stay.

        It resumes from its last checkpoint. Raises Conflict in any other state.
        """
        return await self._send(endpoints.retry_job(self.id), **options)

    @operation
    async def clone(
        self,
        set: Mapping[str, Any] | None = None,  # noqa: A002 - the word of the API and of ampctl
        *,
        idempotency_key: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> J:
        """Queue a new job with this job's spec and changes such as {"precision.policy": "float32"}.

        Raises InvalidSpec and QuotaExceeded; see `client.jobs.submit` for the key.
        """
        key = idempotency_key or str(uuid4())
        return await self._send(endpoints.clone_job(self.id, set or {}, key), **options)

    @operation
    async def extend(
        self,
        epochs: int,
        *,
        idempotency_key: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> J:
        """Queue a new job that continues this one for more epochs, from its last checkpoint.

        With a constant learning rate the result equals that of one job with all the epochs. Raises
        Conflict if the job has not succeeded or has no checkpoint of its end; see
        `client.jobs.submit` for the key.
        """
        key = idempotency_key or str(uuid4())
        return await self._send(endpoints.extend_job(self.id, epochs, key), **options)

    @operation
    async def explain(
        self,
        step: int,
        *,
        idempotency_key: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> J:
        """Queue a new job that repeats a step of this one exactly, to find the cause.

        Call `wait`, then `answer` on the new job. `explanation_cost` estimates the time before.
        Raises Conflict if the job has not stored the step; see `client.jobs.submit` for the key.
        """
        key = idempotency_key or str(uuid4())
        return await self._send(endpoints.explain_step(self.id, step, key), **options)

    @operation
    async def edit(
        self,
        *,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        priority: int | None = None,
        **options: Unpack[RequestOptions],
    ) -> J:
        """Change the name, the labels (all are replaced) or the priority, 0 to 9."""
        changes = endpoints.job_changes(name=name, labels=labels, priority=priority)
        return await self._send(endpoints.edit_job(self.id, changes), **options)

    @operation
    async def delete(self, *, permanent: bool = False, **options: Unpack[RequestOptions]) -> None:
        """Delete the job with its records and files. Raises Conflict unless it has ended.

        It is in the trash for a day, from which `client.jobs.restore` takes it; with `permanent`
        it is deleted at once, and so is one in the trash.
        """
        await self._transport.send(endpoints.delete_job(self.id, permanent=permanent), **options)

    async def _send(
        self,
        request: endpoints.JsonRequest[JobView],
        *,
        retry_timeout_s: float = RETRY_TIMEOUT_S,
        **options: Unpack[RequestOptions],
    ) -> J:
        view = await self._transport.send(request, retry_timeout_s=retry_timeout_s, **options)
        return self._bind(view)


class Job(BaseJob[Sync, "Job"]):
    """An immutable view of a job; operations that change the job return a new view.

    It has the fields of the job in the HTTP API. The `spec` of a listed job is fetched when it is
    first read.
    """

    _mode = Sync

    @property
    def with_raw_response(self) -> "BaseJob[SyncRaw, Job]":
        """The same operations; each returns its HTTP response, too."""
        return BaseJob.bind(self._bound_view, self._transport, SyncRaw)

    def _fetch_spec(self) -> dict[str, Any]:
        return self.refresh().spec


class AsyncJob(BaseJob[Async, "AsyncJob"]):
    """An immutable view of a job; operations are awaited, and changes return a new view."""

    _mode = Async

    @property
    def with_raw_response(self) -> "BaseJob[AsyncRaw, AsyncJob]":
        """The same operations; each returns its HTTP response, too."""
        return BaseJob.bind(self._bound_view, self._transport, AsyncRaw)


def progress_options(
    progress: bool | Callable[[J], object], on_progress: Callable[[J], object] | None
) -> tuple[bool, Callable[[J], object] | None]:
    """The options of `wait` by their present names: a function is `on_progress`."""
    if isinstance(progress, bool):
        return progress, on_progress
    warn_deprecated("wait(progress=FUNCTION) is now on_progress=.")
    return False, progress
