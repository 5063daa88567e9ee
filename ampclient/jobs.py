"""`client.jobs`: submit jobs and find them again."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from ampclient import calls
from ampclient.documents import SpecSource, document_of
from ampclient.job import POLL_S, Job
from ampclient.transport import Transport
from ampclient.views import Validated
from ampclient.wait import Progress, wait_for

JobList = list[Job]  # inside the class, `list` is the method


class Jobs:
    """The jobs of a server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def submit(self, spec: SpecSource) -> Job:
        """Queue a job: a JobSpec, a mapping, or the path of a YAML or JSON file.

        Raises InvalidSpec with every mistake at once, and OSError for an unreadable file.
        """
        view = self._transport.send(calls.submit_job(document_of(spec)))
        return Job.bind(view, self._transport)

    def validate(self, spec: SpecSource) -> Validated:
        """What the server makes of a spec, with every default written out; queues nothing.

        Tells the job's parameters, memory and arithmetic beforehand, and what may disappoint on
        the workers that are online. Raises InvalidSpec.
        """
        return self._transport.send(calls.validate_job(document_of(spec)))

    def get(self, job_id: str) -> Job:
        """One job. Raises NotFound."""
        return Job.bind(self._transport.send(calls.get_job(job_id)), self._transport)

    def list(
        self, *, state: str | Iterable[str] | None = None, limit: int | None = None
    ) -> Iterator[Job]:
        """Jobs, newest first, of one or several states.

        Lazy: an iterator that asks for the first page when its first job is taken, and for each
        further page when it gets there. `list(client.jobs.list())` has them all at once.
        """
        states = [state] if isinstance(state, str) else list(state or ())
        return islice(self._pages(states, limit), limit)

    def wait(
        self,
        jobs: Sequence[Job],
        timeout: float | None = None,
        *,
        progress: Progress = False,
        raise_on_failure: bool = False,
        poll_s: float = POLL_S,
    ) -> JobList:
        """Several jobs, in the same order, once all have ended; see `Job.wait`."""
        return wait_for(
            jobs,
            timeout_s=timeout,
            progress=progress,
            raise_on_failure=raise_on_failure,
            poll_s=poll_s,
        )

    def _pages(self, states: Sequence[str], limit: int | None) -> Iterator[Job]:
        size = calls.JOBS_PER_PAGE if limit is None else max(1, min(limit, calls.JOBS_PER_PAGE))
        cursor = None
        while True:
            page = self._transport.send(calls.list_jobs(states, limit=size, cursor=cursor))
            yield from (Job.bind(view, self._transport) for view in page.jobs)
            cursor = page.next_cursor
            if cursor is None:
                return
