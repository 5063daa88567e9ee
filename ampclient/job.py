"""`Job` and `AsyncJob`: a view of a job, with the operations on it."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, Self, Unpack
from uuid import uuid4

from ampclient import requests
from ampclient._request_options import RequestOptions
from ampclient._sync_async import Async, Sync, operation
from ampclient._transport import Transport
from ampclient.job_records import JobRecords
from ampclient.job_view import JobView
from ampclient.retry import RETRY_TIMEOUT_S
from ampclient.wait import POLL_S, J, wait_until


class BaseJob(JobRecords, Generic[J]):
    """An immutable view of a job; operations that change the job return a new view."""

    @classmethod
    def bind(cls, view: JobView, transport: Transport) -> Self:
        """A job from a view, with the transport for its operations."""
        job = cls.__new__(cls)
        # As BaseModel.__copy__ does: the values were validated when the view was read.
        object.__setattr__(job, "__dict__", dict(view.__dict__))
        object.__setattr__(job, "__pydantic_extra__", view.__pydantic_extra__)
        object.__setattr__(job, "__pydantic_fields_set__", view.__pydantic_fields_set__)
        object.__setattr__(job, "__pydantic_private__", {"_transport": transport})
        return job

    def __class_getitem__(cls, parameter: Any) -> type[Self]:
        """The class itself: J appears in the types of methods only, never in those of fields."""
        return cls

    @operation
    async def refresh(
        self, *, retry_timeout_s: float = RETRY_TIMEOUT_S, **options: Unpack[RequestOptions]
    ) -> J:
        """Fetch the job again; requests are retried for about `retry_timeout_s`."""
        return await self._send(
            requests.get_job(self.id), retry_timeout_s=retry_timeout_s, **options
        )

    @operation
    async def wait(
        self,
        timeout: float | None = None,
        *,
        progress: bool | Callable[[J], object] = False,
        raise_on_failure: bool = False,
        poll_s: float = POLL_S,
    ) -> J:
        """Wait until the job has succeeded, failed or been cancelled; a paused job has not ended.

        `progress` is True for bars (lines, if standard error is not a terminal), or a function that
        is called with each view. Raises WaitTimeout after `timeout` seconds (the job keeps
        running), and JobFailed for any end other than success if `raise_on_failure` is set.
        """
        alone: list[J] = [self]  # type: ignore[list-item]  # Job and AsyncJob are J themselves
        [ended] = await wait_until(
            alone,
            timeout_s=timeout,
            progress=progress,
            raise_on_failure=raise_on_failure,
            poll_s=poll_s,
        )
        return ended

    @operation
    async def cancel(self, **options: Unpack[RequestOptions]) -> J:
        """Request cancellation; `wait` returns once it has ended. Raises Conflict if ended."""
        return await self._send(requests.cancel_job(self.id), **options)

    @operation
    async def pause(self, **options: Unpack[RequestOptions]) -> J:
        """Request a pause at a checkpoint; a queued job is paused immediately.

        Raises Conflict if it has ended or is being cancelled.
        """
        return await self._send(requests.pause_job(self.id), **options)

    @operation
    async def profile(self, steps: int = 10, **options: Unpack[RequestOptions]) -> J:
        """Profile the next steps of the running job; `profile_report` returns the result.

        Args:
            steps: How many steps to profile, 1 to 200.
            options: Of the request.

        Raises:
            Conflict: The job is not running.
        """
        return await self._send(requests.profile_job(self.id, steps), **options)

    @operation
    async def resume(self, **options: Unpack[RequestOptions]) -> J:
        """Queue the paused job again; it resumes from its checkpoint.

        Raises Conflict if it is not paused.
        """
        return await self._send(requests.resume_job(self.id), **options)

    @operation
    async def retry(self, **options: Unpack[RequestOptions]) -> J:
        """Queue a failed or cancelled job again; its steps, events and files stay.

        It resumes from its last checkpoint. Raises Conflict in any other state.
        """
        return await self._send(requests.retry_job(self.id), **options)

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
        return await self._send(requests.clone_job(self.id, set or {}, key), **options)

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
        return await self._send(requests.extend_job(self.id, epochs, key), **options)

    @operation
    async def explain(
        self,
        step: int,
        *,
        idempotency_key: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> J:
        """Queue a new job that repeats a step of this one exactly, and says what it was due to.

        Call `wait`, then `answer` on the new job. `explanation_cost` estimates the time before.
        Raises Conflict if the job has not stored the step; see `client.jobs.submit` for the key.
        """
        key = idempotency_key or str(uuid4())
        return await self._send(requests.explain_step(self.id, step, key), **options)

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
        given = {"name": name, "labels": labels, "priority": priority}
        changes = {key: value for key, value in given.items() if value is not None}
        return await self._send(requests.edit_job(self.id, changes), **options)

    @operation
    async def delete(self, **options: Unpack[RequestOptions]) -> None:
        """Delete the job with its records and files. Raises Conflict unless it has ended."""
        await self._transport.send(requests.delete_job(self.id), **options)

    async def _send(
        self,
        request: requests.JsonRequest[JobView],
        *,
        retry_timeout_s: float = RETRY_TIMEOUT_S,
        **options: Unpack[RequestOptions],
    ) -> J:
        view = await self._transport.send(request, retry_timeout_s=retry_timeout_s, **options)
        job: Any = self.bind(view, self._transport)  # of the same class
        return job  # type: ignore[no-any-return]


class Job(Sync, BaseJob["Job"]):
    """An immutable view of a job; operations that change the job return a new view.

    The `spec` of a listed job is fetched when it is first read.
    """

    def _missing_spec(self) -> dict[str, Any]:
        return self.refresh().spec


class AsyncJob(Async, BaseJob["AsyncJob"]):
    """An immutable view of a job; operations are awaited, and changes return a new view."""
