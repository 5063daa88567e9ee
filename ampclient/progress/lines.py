"""Prints progress as lines, for logs and pipes: at each state change and every few seconds."""

import time
from dataclasses import replace
from typing import Self, TextIO

from ampclient._display import formats
from ampclient._job.view import JobView
from ampclient.progress.job_progress import JobProgress, ProgressTracker
from ampspec.jobs import State

EVERY_S = 5.0
WAITING_EVERY_S = 60.0
"""Of jobs that wait: the place of each one in the queue changes whenever any other one starts."""


class ProgressLines:
    """Writes a line for each job that changed."""

    def __init__(self, stream: TextIO, tracker: ProgressTracker) -> None:
        self._stream = stream
        self._tracker = tracker
        self._unavailable = False
        self._written: dict[str, tuple[float, JobView]] = {}

    def __call__(self, job: JobView) -> None:
        """Write a line if the state changed, or if the step changed and the last line is old."""
        self._unavailable = False
        progress = self._tracker.update(job)
        last_line = self._written.get(job.id)
        changed = last_line is None or _phase(last_line[1]) != _phase(job)
        if changed or (last_line is not None and _is_due(job, *last_line)):
            self._written[job.id] = (time.monotonic(), job)
            # The start of an attempt is printed once.
            shown = progress if changed else replace(progress, first_step=None)
            print(progress_line(shown), file=self._stream, flush=True)

    def server_unavailable(self, reason: str) -> None:
        """Print once that the server does not respond, until it responds again."""
        if not self._unavailable:
            print(f"{reason} Retrying …", file=self._stream, flush=True)
        self._unavailable = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


def _phase(job: JobView) -> tuple[str, int]:
    return f"{job.state}{' uploads' if job.uploading else ''}", job.attempt


def _is_due(job: JobView, written_s: float, written_view: JobView) -> bool:
    shown, current = ((view.step, view.waiting, view.uploading) for view in (written_view, job))
    moved = shown != current
    every_s = WAITING_EVERY_S if job.state is State.QUEUED else EVERY_S
    return moved and time.monotonic() - written_s >= every_s


def progress_line(progress: JobProgress) -> str:
    """Everything about the job's progress in one line."""
    job = progress.job
    facts = [f"{progress.name}: {job.state_text}"]
    facts += filter(None, (progress.attempt, progress.waiting_for))
    if job.latest is not None:
        facts += [
            f"step {formats.steps(job.step, job.total_steps)}",
            f"loss {formats.number(job.latest.loss)}",
            f"loss scale {formats.loss_scale(job.latest.loss_scale)}",
            f"skipped {job.skipped}",
            f"{formats.rate(job.examples_per_s)} examples/s",
        ]
    if job.metrics:
        facts.append(formats.metrics(job.metrics))
    if progress.remaining_s:
        facts.append(f"{formats.duration(progress.remaining_s)} left")
    if job.message:
        facts.append(formats.printable(job.message))
    return "  ".join(facts)
