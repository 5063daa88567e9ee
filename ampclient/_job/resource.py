"""What the parts of a client have that return jobs."""

from typing import Generic

from ampclient._http.operations import M, Operations
from ampclient._job.job import job_class
from ampclient._job.view import JobView
from ampclient._job.wait import J


class JobResource(Operations[M], Generic[M, J]):
    """Operations that return jobs of the client's mode."""

    def _bind(self, view: JobView) -> J:
        job: J = job_class(is_async=self._mode.is_async).bind(view, self._transport)
        return job
