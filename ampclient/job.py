"""A job on the server: what was known of it, and what can be done with it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Generic, Self
from uuid import uuid4

from ampclient import calls
from ampclient.faces import Async, Sync, operation
from ampclient.records import JobRecords
from ampclient.retry import PATIENCE_S
from ampclient.transport import Transport
from ampclient.views import JobView
from ampclient.wait import POLL_S, J, wait_until


@dataclass(frozen=True, kw_only=True)
class AnyJob(JobRecords, Generic[J]):
    """A frozen view of a job; whatever changes the job answers with a new one."""

    @classmethod
    def bind(cls, view: JobView, transport: Transport) -> Self:
        """The job that the server described, with the actions that need the server."""
        values = {one.name: getattr(view, one.name) for one in fields(view) if one.init}
        return cls(**values, _transport=transport)

    @operation
    async def refresh(self, *, patience_s: float = PATIENCE_S) -> J:
        """The job as it is now; a server that does not answer is tried for `patience_s`."""
        return await self._sent(calls.get_job(self.id), patience_s=patience_s)

    @operation
    async def wait(
        self,
        timeout: float | None = None,
        *,
        progress: bool | Callable[[J], object] = False,
        raise_on_failure: bool = False,
        poll_s: float = POLL_S,
    ) -> J:
        """The job once it has succeeded, failed or been cancelled; a paused one is waited for.

        `progress` is True for bars (lines, if standard error is no terminal), or a function
        that is called with each view. Raises WaitTimeout after `timeout` seconds (the job goes
        on), and JobFailed for an end other than success if `raise_on_failure` is set.
        """
        alone: list[J] = [self]  # type: ignore[list-item]  # each face is a J of its own
        [ended] = await wait_until(
            alone,
            timeout_s=timeout,
            progress=progress,
            raise_on_failure=raise_on_failure,
            poll_s=poll_s,
        )
        return ended

    @operation
    async def cancel(self) -> J:
        """Ask for the job's end; `wait` to know it gone. Raises Conflict if it has ended."""
        return await self._sent(calls.cancel_job(self.id))

    @operation
    async def pause(self) -> J:
        """Ask the job to stop at a checkpoint; a queued one is paused at once.

        Raises Conflict if it has ended or is being cancelled.
        """
        return await self._sent(calls.pause_job(self.id))

    @operation
    async def resume(self) -> J:
        """Queue the paused job again; it goes on from its checkpoint.

        Raises Conflict if it is not paused.
        """
        return await self._sent(calls.resume_job(self.id))

    @operation
    async def retry(self) -> J:
        """Queue the job again after it failed or was cancelled, with all that it has left so far.

        It goes on from its last checkpoint. Raises Conflict for any other state.
        """
        return await self._sent(calls.retry_job(self.id))

    @operation
    async def clone(
        self,
        set: Mapping[str, Any] | None = None,  # noqa: A002 - the word of the API and of ampctl
        *,
        idempotency_key: str | None = None,
    ) -> J:
        """Queue a new job with this one's spec, changed as {"precision.policy": "float32"} says.

        Raises InvalidSpec and QuotaExceeded; see `client.jobs.submit` for the key.
        """
        key = idempotency_key or str(uuid4())
        return await self._sent(calls.clone_job(self.id, set or {}, key))

    @operation
    async def edit(
        self,
        *,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        priority: int | None = None,
    ) -> J:
        """Give the job another name, other labels (all of them), or another priority, 0 to 9."""
        given = {"name": name, "labels": labels, "priority": priority}
        changes = {key: value for key, value in given.items() if value is not None}
        return await self._sent(calls.edit_job(self.id, changes))

    @operation
    async def delete(self) -> None:
        """Delete the job with its records and files. Raises Conflict unless it has ended."""
        await self._transport.send(calls.delete_job(self.id))

    async def _sent(self, call: calls.Call[JobView], *, patience_s: float = PATIENCE_S) -> J:
        view = await self._transport.send(call, patience_s=patience_s)
        job: Any = self.bind(view, self._transport)  # of the same face
        return job  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class Job(Sync, AnyJob["Job"]):
    """A frozen view of a job; whatever changes the job answers with a new one.

    The `spec` of a job out of a list is asked for when it is first read.
    """

    def _missing_spec(self) -> dict[str, Any]:
        return self.refresh().spec


@dataclass(frozen=True, kw_only=True)
class AsyncJob(Async, AnyJob["AsyncJob"]):
    """A frozen view of a job; whatever changes the job is awaited and answers with a new one."""
