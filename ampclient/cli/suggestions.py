"""Which job was meant, where there is none of the id that was given."""

from typing import TYPE_CHECKING, Final

from ampclient import formats
from ampclient.errors import AmpcoreError
from ampcore.spec.problems import closest

if TYPE_CHECKING:
    from ampclient.client import Client
    from ampclient.job import Job

MOST: Final = 3
LOOKED_AT: Final = 100
"""The newest jobs, among which a mistyped id is looked for."""


def meant(client: "Client", job_id: str) -> str:
    """A sentence that leads on: the jobs that it may be, else where to find them."""
    try:
        jobs = _similar(client, job_id)
    except AmpcoreError:
        jobs = []
    if not jobs:
        return "`ampctl list` shows those there are."
    names = [f"{job.id} ({formats.printable(job.name)}, {job.state})" for job in jobs]
    return f"Did you mean {' or '.join(names)}?"


def _similar(client: "Client", job_id: str) -> "list[Job]":
    """Jobs whose id begins so or whose name holds it, else the one with the most similar id."""
    found = list(client.jobs.list(q=job_id, limit=MOST)) if job_id else []
    if found:
        return found
    newest = {job.id: job for job in client.jobs.list(limit=LOOKED_AT)}
    word = closest(job_id, newest)
    return [newest[word]] if word else []
