"""Progress as lines, for logs and pipes: at each change of state, else every few seconds."""

import time
from typing import Self, TextIO

from ampclient import formats
from ampclient.progress.pace import Pace
from ampclient.views import JobView
from ampcore.spec import State

EVERY_S = 5.0


class Lines:
    """Writes what is new about each job it is shown."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._paces: dict[str, Pace] = {}
        self._written: dict[str, tuple[float, JobView]] = {}

    def __call__(self, job: JobView) -> None:
        """Write a line if the job changed its state, or stepped on and the last line is old."""
        pace = self._paces.setdefault(job.id, Pace())
        pace.see(job)
        if self._is_due(job):
            self._written[job.id] = (time.monotonic(), job)
            print(line(job, pace.remaining_s(job)), file=self._stream, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def _is_due(self, job: JobView) -> bool:
        if job.id not in self._written:
            return True
        written_s, before = self._written[job.id]
        if before.state != job.state:
            return True
        return job.step != before.step and time.monotonic() - written_s >= EVERY_S


def line(job: JobView, remaining_s: float | None) -> str:
    """Everything about the job's progress in one line."""
    facts = [f"{formats.printable(job.name)}: {job.state}"]
    if job.state is State.QUEUED:
        facts.append("waiting for a free worker")
    if job.latest is not None:
        facts += [
            f"step {formats.steps(job.step, job.total_steps)}",
            f"loss {formats.number(job.latest.loss)}",
            f"loss scale {formats.loss_scale(job.latest.loss_scale)}",
            f"skipped {job.skipped}",
            f"{formats.rate(job.examples_per_s)} examples/s",
        ]
    if remaining_s:
        facts.append(f"{formats.duration(remaining_s)} left")
    if job.message:
        facts.append(formats.printable(job.message))
    return "  ".join(facts)
