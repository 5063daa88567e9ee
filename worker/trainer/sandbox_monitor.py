"""Watches what a sandboxed job uses; a job that exceeds a limit is ended with a reason.

The kernel limits single processes and files. The sums over a job are read here, twice a second.
"""

import logging
import os
import threading
from collections.abc import Iterator
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ampspec.jobs import Reason
from worker.trainer import process_status
from worker.trainer.isolation import TrainerFolder
from worker.trainer.oom_kills import OomKillCounter
from worker.trainer.process_status import ProcessStatus
from worker.trainer.sandbox import SandboxLimits
from worker.trainer.trainer_process import TrainerProcess

log = logging.getLogger(__name__)

INTERVAL_S: Final = 0.5
BLOCK_BYTES: Final = 512  # the unit of st_blocks
GIB: Final = 2**30


@dataclass(frozen=True)
class Violation:
    """The limit that a job has exceeded."""

    reason: Reason
    message: str


class SandboxMonitor:
    """Checks the limits of one sandboxed trainer in a separate thread.

    Args:
        process: The trainer, before it has its job: what is in its folder now is the worker's.
        limits: What the job may use.
    """

    def __init__(self, process: TrainerProcess, limits: SandboxLimits) -> None:
        self.violation: Violation | None = None
        """The first limit that was exceeded; the trainer must be killed."""
        self._process, self._limits = process, limits
        self._folder = _folder(process)
        cgroup = self._folder.cgroup
        self._oom_kills = OomKillCounter(cgroup.events) if cgroup is not None else None
        self._telemetry_bytes = 0
        self._files_before, self._bytes_before = _measure(self._folder.path, limits.files)
        self._stopped = threading.Event()
        run = copy_context().run
        self._thread = threading.Thread(
            target=run, args=[self._run], name="sandbox-monitor", daemon=True
        )

    def start(self) -> None:
        """Start to check."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, after a last check of the trainer's folder. The trainer has ended."""
        self._stopped.set()
        self._thread.join()

    def count_telemetry(self, size_bytes: int) -> None:
        """Count what the trainer has sent."""
        self._telemetry_bytes += size_bytes

    def _run(self) -> None:
        is_last = False
        while self.violation is None and not is_last:
            is_last = self._stopped.wait(INTERVAL_S)
            processes = [] if is_last else self._processes()
            self.violation = next(self._violations(processes), None)
        if self.violation is not None:
            log.warning("a sandboxed trainer exceeded a limit: %s", self.violation.message)
            self._process.end_without_grace()

    def _violations(self, processes: list[ProcessStatus]) -> Iterator[Violation]:
        yield from self._violations_by(processes)
        files, size_bytes = _measure(self._folder.path, self._files_before + self._limits.files)
        limit = self._limits.disk_bytes
        if size_bytes - self._bytes_before > limit:
            yield Violation(
                Reason.RESOURCE_LIMIT,
                f"The job's files take more than {_size(limit)}, the limit for custom code "
                "(AMPCORE_BUNDLE_DISK_BYTES of the worker). Write less, or delete files.",
            )
        if files - self._files_before > self._limits.files:
            message = f"The job created more than {self._limits.files:,} files and folders."
            yield Violation(Reason.RESOURCE_LIMIT, message)
        if _free_bytes(self._folder.path) < self._limits.free_disk_bytes:
            yield Violation(
                Reason.RESOURCE_LIMIT,
                "The worker's disk is almost full, and jobs with custom code are ended first. "
                "Free space in its scratch folder, then retry the job.",
            )
        if self._telemetry_bytes > self._limits.telemetry_bytes:
            limit = self._limits.telemetry_bytes
            yield Violation(
                Reason.RESOURCE_LIMIT,
                f"The job sent more than {_size(limit)} of steps and events.",
            )

    def _violations_by(self, processes: list[ProcessStatus]) -> Iterator[Violation]:
        threads = sum(process.threads for process in processes)
        if threads >= self._limits.processes:
            yield Violation(
                Reason.RESOURCE_LIMIT,
                f"The job started {threads:,} processes and threads; the limit for custom code is "
                f"{self._limits.processes:,} (AMPCORE_BUNDLE_PROCESSES of the worker).",
            )
        yield from self._memory_violations(processes)

    def _memory_violations(self, processes: list[ProcessStatus]) -> Iterator[Violation]:
        limit = _size(self._limits.memory_bytes)
        advice = (
            f"the limit for jobs with custom code is {limit} (AMPCORE_BUNDLE_MEMORY_BYTES of the "
            "worker). Lower data.batch_size, or use a smaller model or less data."
        )
        if self._oom_kills is not None:
            if self._oom_kills.has_increased():
                message = f"The job used too much memory, that of the kernel included; {advice}"
                yield Violation(Reason.OUT_OF_MEMORY, message)
            return
        used_bytes = sum(process.memory_bytes for process in processes)
        if used_bytes > self._limits.memory_bytes:
            message = f"The job used {_size(used_bytes)} of memory; {advice}"
            yield Violation(Reason.OUT_OF_MEMORY, message)
        # Whatever takes it, such as locks of files: it may be memory of the kernel.
        if process_status.available_memory_bytes() < self._limits.free_memory_bytes:
            yield Violation(
                Reason.RESOURCE_LIMIT,
                "The machine's memory is almost full, and jobs with custom code are ended first. "
                "Use fewer slots or a machine with more memory, then retry the job.",
            )
        sockets = self._count_sockets(processes)
        if sockets > self._limits.sockets:
            yield Violation(
                Reason.RESOURCE_LIMIT,
                f"The job had {sockets:,} sockets open, whose buffers are memory of the kernel; "
                f"the limit for jobs with custom code is {self._limits.sockets:,}.",
            )

    def _count_sockets(self, processes: list[ProcessStatus]) -> int:
        if self._folder.confinement.bubblewrap is not None:  # it has one network namespace
            return max(map(process_status.count_sockets_in_namespace, processes), default=0)
        return sum(map(process_status.count_sockets, processes))

    def _processes(self) -> list[ProcessStatus]:
        if self._folder.user is not None:
            return process_status.of_user(self._folder.user.number)
        pid = self._process.pid
        return process_status.descendants_of(pid) if pid is not None else []


def _folder(process: TrainerProcess) -> TrainerFolder:
    if process.folder is None:
        raise ValueError("expected a trainer with a folder, received a trainer without one")
    return process.folder


def _measure(folder: Path, limit: int) -> tuple[int, int]:
    """The number of files and folders in a folder, and their bytes; stops above `limit`."""
    count, size_bytes, folders = 0, 0, [os.fspath(folder)]
    while folders and count <= limit:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    count += 1
                    status = entry.stat(follow_symlinks=False)
                    # A sparse file is stored, uploaded and downloaded in its whole size.
                    size_bytes += max(status.st_size, status.st_blocks * BLOCK_BYTES)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    if count > limit:
                        break
        except OSError:  # the job removed it meanwhile, or closed it even to itself
            continue
    return count, size_bytes


def _free_bytes(folder: Path) -> int:
    file_system = os.statvfs(folder)
    return file_system.f_bavail * file_system.f_frsize


def _size(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.1f} GiB" if size_bytes >= GIB else f"{size_bytes:,} bytes"
