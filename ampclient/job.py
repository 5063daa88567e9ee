"""A job on the server: what was known of it, and what can be done with it."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from ampclient import calls
from ampclient.retry import PATIENCE_S, POLLING_PATIENCE_S
from ampclient.steps import StepRange, StepReader
from ampclient.transport import Transport
from ampclient.views import JobEvent, JobView
from ampclient.wait import Progress, refreshed, wait_for

if TYPE_CHECKING:
    from ampcore.series import StepBlock

POLL_S = 0.5


@dataclass(frozen=True, kw_only=True)
class Job(JobView):
    """A frozen view of a job; `refresh` and `wait` answer with a new one."""

    _transport: Transport = field(repr=False, compare=False)

    @classmethod
    def bind(cls, view: JobView, transport: Transport) -> Self:
        """The job that the server described, with the actions that need the server."""
        return cls(**vars(view), _transport=transport)

    def refresh(self, *, patience_s: float = PATIENCE_S) -> "Job":
        """The job as it is now; a server that does not answer is tried for `patience_s`."""
        view = self._transport.send(calls.get_job(self.id), patience_s=patience_s)
        return Job.bind(view, self._transport)

    def wait(
        self,
        timeout: float | None = None,
        *,
        progress: Progress = False,
        raise_on_failure: bool = False,
        poll_s: float = POLL_S,
    ) -> "Job":
        """The job once it has succeeded, failed or been cancelled.

        `progress` is True for bars (lines, if standard error is no terminal), or a function
        that is called with each view. Raises WaitTimeout after `timeout` seconds (the job goes
        on), and JobFailed for an end other than success if `raise_on_failure` is set.
        """
        [ended] = wait_for(
            [self],
            timeout_s=timeout,
            progress=progress,
            raise_on_failure=raise_on_failure,
            poll_s=poll_s,
        )
        return ended

    def steps(
        self,
        *,
        start: int | None = None,
        end: int | None = None,
        after: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> "StepBlock":
        """The values of every stored step s with `start` ≤ s < `end` and `after` < s."""
        from ampcore.series import StepBlock

        wanted = StepRange(start, end, after, columns)
        blocks = list(StepReader(self._transport, self.id, wanted).read())
        return StepBlock.concat(blocks) if blocks else wanted.empty()

    def iter_steps(
        self,
        *,
        start: int | None = None,
        end: int | None = None,
        after: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator["StepBlock"]:
        """The same steps block by block, for more of them than memory should hold."""
        wanted = StepRange(start, end, after, columns)
        return StepReader(self._transport, self.id, wanted).read()

    def follow_steps(
        self,
        *,
        after: int | None = None,
        columns: Sequence[str] | None = None,
        poll_s: float = POLL_S,
    ) -> Iterator["StepBlock"]:
        """Every step after `after`, each exactly once, as they come, until the job has ended."""
        reader = StepReader(self._transport, self.id, StepRange(after=after, columns=columns))
        job = self
        while True:
            # The state is read before the steps: an ended job stores no more of them.
            job = refreshed(job)
            yield from reader.read(patience_s=POLLING_PATIENCE_S)
            if job.state.is_terminal:
                return
            time.sleep(poll_s)

    def events(self, *, after: int | None = None) -> list[JobEvent]:
        """The job's ledger in order, behind the event whose `seq` is `after`."""
        events: list[JobEvent] = []
        more = True
        while more:
            page = self._transport.send(calls.get_events(self.id, after=after))
            events += page.events
            after, more = page.next, page.more and bool(page.events)
        return events

    def cancel(self) -> "Job":
        """Ask for the job's end; `wait` to know it gone. Raises Conflict if it has ended."""
        return Job.bind(self._transport.send(calls.cancel_job(self.id)), self._transport)
