"""Mirrors a stored job or run: all of its steps and evaluations, and its state."""

import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from ampclient.errors import AmpcoreError, MirrorFailed
from ampclient.mirrors.mirror import (
    NOT_MIRRORED,
    Mirror,
    MirrorEnd,
    MirrorRow,
    MirrorStart,
    block_rows,
    flat_params,
)
from ampspec.jobs import Source

if TYPE_CHECKING:
    from ampclient._job.job import Job

BATCH_ROWS: Final = 1000
RESULTS: Final = ("final_loss", "val_loss", "val_accuracy", "parameters", "peak_memory_bytes")
FINAL: Final = ("succeeded", "failed", "cancelled")


class MirroredJob(NamedTuple):
    """What was mirrored of a job.

    Attributes:
        id: Its id.
        name: Its name.
        place: Where it is now.
        steps: How many steps were written.
        evaluations: How many evaluations were written.
        not_mirrored: What it has besides, in words.
    """

    id: str
    name: str
    place: str
    steps: int
    evaluations: int
    not_mirrored: str


def mirror_job(job: "Job", mirror: Mirror, url: str) -> MirroredJob:
    """Write a job to a mirror. The steps have the times that follow from their durations.

    Args:
        job: The job, with its spec.
        mirror: Where it goes; it has no run yet.
        url: The page of the job in the dashboard.

    Raises:
        AmpcoreError: The job cannot be read.
        MirrorFailed: The other tool has refused it.
    """
    try:
        return _mirror_job(job, mirror, url)
    except AmpcoreError:
        raise
    except Exception as error:  # whatever the library of the other tool raises
        text = f"{mirror.place}: {type(error).__name__}: {error}"
        raise MirrorFailed(f"The job {job.id} is not complete there. {text}") from error


def _mirror_job(job: "Job", mirror: Mirror, url: str) -> MirroredJob:
    started_at_s = _seconds(job.started_at or job.created_at)
    settings = {name: value for name, value in job.spec.items() if name not in ("name", "labels")}
    mirror.begin(MirrorStart(job.name, flat_params(settings), job.labels, started_at_s))
    evaluations = {
        int(row["step"] or 0): {
            name: float(value)
            for name, value in row.items()
            if name not in ("step", "epoch") and value is not None
        }
        for row in job.evaluations()
    }
    rows = _Counted(_rows(job, started_at_s))
    batch: list[MirrorRow] = []
    for row in _with_evaluations(rows, evaluations, started_at_s):
        batch.append(row)
        if len(batch) == BATCH_ROWS:
            mirror.write(batch)
            batch = []
    mirror.write(batch)
    mirror.end(_end(job, url))
    return MirroredJob(job.id, job.name, mirror.place, rows.count, len(evaluations), NOT_MIRRORED)


class _Counted(Iterator[MirrorRow]):
    """Counts the rows that were taken from it."""

    def __init__(self, rows: Iterator[MirrorRow]) -> None:
        self._rows, self.count = rows, 0

    def __next__(self) -> MirrorRow:
        row = next(self._rows)
        self.count += 1
        return row


def _rows(job: "Job", started_at_s: float) -> Iterator[MirrorRow]:
    time_s = started_at_s
    has_scale = job.source != Source.TRACKED or (
        job.summary is not None and job.summary.scale_health is not None
    )
    for block in job.iter_steps():
        times = (block["step_time_s"].astype("float64").cumsum() + time_s).tolist()
        yield from block_rows(block, times, has_scale=has_scale)
        time_s = times[-1] if times else time_s


def _with_evaluations(
    rows: Iterator[MirrorRow], evaluations: Mapping[int, Mapping[str, float]], time_s: float
) -> Iterator[MirrorRow]:
    """The rows with the evaluations after them, in the order of the steps."""
    waiting = sorted(evaluations)
    for row in rows:
        while waiting and waiting[0] < row.step:
            step = waiting.pop(0)
            yield MirrorRow(step, time_s, evaluations[step])
        time_s = row.time_s
        if waiting and waiting[0] == row.step:
            waiting.pop(0)
            yield row._replace(values={**row.values, **evaluations[row.step]})
            continue
        yield row
    for step in waiting:
        yield MirrorRow(step, time_s, evaluations[step])


def _end(job: "Job", url: str) -> MirrorEnd:
    results = {
        name: float(value)
        for name in RESULTS
        if (value := getattr(job.summary, name, None)) is not None
    }
    ended_at_s = _seconds(job.finished_at) if job.finished_at else time.time()
    state = str(job.state) if job.state in FINAL else "running"
    return MirrorEnd(state, ended_at_s, results, job.id, url)


def _seconds(moment: datetime) -> float:
    return moment.timestamp()
