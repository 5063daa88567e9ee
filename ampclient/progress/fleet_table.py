"""Draws a fleet: its workers with their devices, and the jobs that run or wait."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ampclient._display import formats
from ampclient._display.terminal_table import TableColumn, fitted_table
from ampclient._job.view import JobView
from ampclient.progress.job_progress import JobProgress
from ampclient.progress.live_table import progress_table
from ampspec.api.workers import Worker
from ampspec.documents.text import plural

WORKER_COLUMNS: Final = (
    TableColumn("worker"),
    TableColumn("host", min_width=12),
    TableColumn("state"),
    TableColumn("busy", align_right=True),
    TableColumn("GPU", align_right=True, drop_order=1),
    TableColumn("GPU memory", align_right=True, drop_order=2),
    TableColumn("queues", min_width=12),
)
LINES_AROUND: Final = 7
"""The first line, two empty lines, two headers, and two lines that say what is left out."""


@dataclass(frozen=True)
class Fleet:
    """What a server runs at a moment."""

    workers: Sequence[Worker]
    """Those that are online."""
    running: Sequence[JobProgress]
    """The jobs that a worker has, newest first."""
    queued: Sequence[JobView]
    """The first queued jobs, newest first."""
    has_more_running: bool
    has_more_queued: bool
    """Whether more jobs run, or wait, than these."""


def fleet_table(fleet: Fleet, width: int, height: int | None) -> Group:
    """The fleet in so many lines of a terminal; None: all of it."""
    room = None if height is None else max(height - LINES_AROUND, 2)
    shown = fleet.workers if room is None else fleet.workers[: max(room // 3, 1)]
    jobs = [*fleet.running, *(JobProgress(job) for job in fleet.queued)]
    shown_jobs = jobs if room is None else jobs[: max(room - len(shown), 1)]
    parts: list[RenderableType] = [Text(_summary(fleet), style="bold"), Text()]
    parts += [_workers(shown, width), *_more(fleet.workers, shown, "worker"), Text()]
    if not jobs:
        return Group(*parts, Text("No job runs or waits.", style="dim"))
    return Group(*parts, progress_table(shown_jobs, width), *_more(jobs, shown_jobs, "job"))


def _summary(fleet: Fleet) -> str:
    slots = sum(worker.slots for worker in fleet.workers)
    busy = sum(map(_busy, fleet.workers))
    counts = [
        plural(len(fleet.workers), "worker"),
        f"{busy} of {plural(slots, 'slot')} busy",
        _count(len(fleet.running), fleet.has_more_running) + " active",
        _count(len(fleet.queued), fleet.has_more_queued) + " queued",
    ]
    return f"{formats.moment(datetime.now(UTC))}  {' · '.join(counts)}"


def _count(jobs: int, has_more: bool) -> str:
    return f"more than {jobs}" if has_more else str(jobs)


def _more(all_: Sequence[object], shown: Sequence[object], noun: str) -> list[Text]:
    hidden = len(all_) - len(shown)
    return [Text(f"and {plural(hidden, f'more {noun}')}", style="dim")] if hidden else []


def _workers(workers: Sequence[Worker], width: int) -> Table | Text:
    if not workers:
        return Text("No worker is online.", style="yellow")
    rows = [
        (
            worker.id,
            formats.printable(worker.hostname),
            "draining" if worker.draining else worker.state,
            f"{_busy(worker)}/{worker.slots}",
            *_gpus(worker.usage or {}),
            f"job {worker.job_id}" if worker.job_id else formats.printable(" ".join(worker.queues)),
        )
        for worker in workers
    ]
    return fitted_table(WORKER_COLUMNS, rows, width, gap=1, header_style="dim")


def _busy(worker: Worker) -> int:
    """Its busy slots: those at its last heartbeat, or more jobs, of which the token sees some."""
    busy = (worker.usage or {}).get("busy")
    return max(busy if isinstance(busy, int) else 0, len(worker.jobs))


def _gpus(usage: Mapping[str, Any]) -> tuple[str, str]:
    """The mean utilization of a worker's GPUs, and their memory in use."""
    gpus = [gpu for gpu in usage.get("gpus") or () if isinstance(gpu, Mapping)]
    used, total, utilization = (
        [gpu[name] for gpu in gpus if isinstance(gpu.get(name), int | float)]
        for name in ("memory_used_bytes", "memory_total_bytes", "utilization")
    )
    if not used or not total or not utilization:
        return formats.UNKNOWN, formats.UNKNOWN
    share = formats.percent(sum(utilization) / len(utilization))
    return share, f"{formats.size(sum(used))} of {formats.size(sum(total))}"
