"""Progress as lines, for logs and pipes: at each change of state, else every few seconds."""

import time
from dataclasses import replace
from typing import Self, TextIO

from ampclient import formats
from ampclient.progress.standing import Standing, Watched
from ampclient.views import JobView

EVERY_S = 5.0


class Lines:
    """Writes what is new about each job it is shown."""

    def __init__(self, stream: TextIO, watched: Watched) -> None:
        self._stream = stream
        self._watched = watched
        self._away = False
        self._written: dict[str, tuple[float, JobView]] = {}

    def __call__(self, job: JobView) -> None:
        """Write a line if the job changed its state, or moved on and the last line is old."""
        self._away = False
        standing = self._watched.see(job)
        before = self._written.get(job.id)
        changed = before is None or _phase(before[1]) != _phase(job)
        if changed or (before is not None and _is_due(job, *before)):
            self._written[job.id] = (time.monotonic(), job)
            # Where an attempt began is told once.
            shown = standing if changed else replace(standing, first_step=None)
            print(line(shown), file=self._stream, flush=True)

    def away(self, why: str) -> None:
        """Say once that the server is away, until it is there again."""
        if not self._away:
            print(f"{why} Trying again …", file=self._stream, flush=True)
        self._away = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


def _phase(job: JobView) -> tuple[str, int]:
    return job.state, job.attempt


def _is_due(job: JobView, written_s: float, before: JobView) -> bool:
    moved = (before.step, before.waiting) != (job.step, job.waiting)
    return moved and time.monotonic() - written_s >= EVERY_S


def line(standing: Standing) -> str:
    """Everything about the job's progress in one line."""
    job = standing.job
    facts = [f"{standing.name}: {job.state}"]
    facts += filter(None, (standing.attempt, standing.waits_for))
    if job.latest is not None:
        facts += [
            f"step {formats.steps(job.step, job.total_steps)}",
            f"loss {formats.number(job.latest.loss)}",
            f"loss scale {formats.loss_scale(job.latest.loss_scale)}",
            f"skipped {job.skipped}",
            f"{formats.rate(job.examples_per_s)} examples/s",
        ]
    if standing.remaining_s:
        facts.append(f"{formats.duration(standing.remaining_s)} left")
    if job.message:
        facts.append(formats.printable(job.message))
    return "  ".join(facts)
