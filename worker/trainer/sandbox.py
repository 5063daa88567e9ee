"""The sandbox of jobs with custom code: stronger isolation, and limits that end the job.

`worker.trainer.sandbox_plan` finds out which sandbox this machine allows. docs/adr/0048 gives the
reasons for each measure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from store.jobs.attempts import BUNDLE
from worker.trainer.isolation import Isolation, TrainerFolder

FILES: Final = 20_000
FREE_DISK_BYTES: Final = 2**29
FREE_MEMORY_BYTES: Final = 2**28
TELEMETRY_BYTES: Final = 4 * 2**30
SPARE_PROCESSES: Final = 64
"""The kernel's limit is this much above the job's, so that a job at its limit is noticed."""
OPEN_FILES: Final = 1024
"""How many files each process of a sandboxed trainer may have open."""
SOCKETS: Final = 1024
"""The kernel keeps up to 208 KiB in the buffer of each (net.core.wmem_default)."""
RESERVED_BYTES: Final = 4 * 2**30
"""Address space that a trainer reserves but hardly uses, on top of the memory that it uses."""


class SandboxKind(StrEnum):
    """How a sandbox is built."""

    BUBBLEWRAP = "bubblewrap"
    """Separate namespaces, created by bubblewrap, and inside them all measures of `landlock`."""
    LANDLOCK = "landlock"
    """Landlock, a filter of system calls, and a separate user."""


@dataclass(frozen=True)
class SandboxLimits:
    """The resources that the processes of one job may use together."""

    memory_bytes: int
    processes: int
    """Processes and threads."""
    disk_bytes: int
    """The files in the trainer's folder."""
    files: int = FILES
    """The files and folders that it creates; bounds the work of each check."""
    free_disk_bytes: int = FREE_DISK_BYTES
    """Bytes to keep free on the disk of the trainer's folder, for other jobs."""
    free_memory_bytes: int = FREE_MEMORY_BYTES
    """Memory of the machine to keep available, where the job has no memory cgroup."""
    sockets: int = SOCKETS
    """The sockets that its processes have open, where it has no memory cgroup."""
    telemetry_bytes: int = TELEMETRY_BYTES
    """The steps and events that the job sends."""


@dataclass(frozen=True)
class Sandbox:
    """The sandbox that every job with custom code gets on this worker."""

    kind: SandboxKind
    isolation: Isolation
    limits: SandboxLimits
    bubblewrap: Path | None = None
    """The program, for that kind."""

    def new_folder(self) -> TrainerFolder:
        """Create a folder for the next sandboxed trainer, and claim a user for it.

        Raises OSError.
        """
        folder = replace(self.isolation, cgroup_bytes=self.limits.memory_bytes).new_folder()
        confinement = replace(
            folder.confinement,
            memory_bytes=self.limits.memory_bytes + RESERVED_BYTES,
            processes=self.limits.processes + SPARE_PROCESSES,
            file_bytes=self.limits.disk_bytes,
            open_files=OPEN_FILES,
            is_sandbox=True,
            bubblewrap=self.bubblewrap,
        )
        return replace(folder, confinement=confinement)

    def describe(self) -> dict[str, Any]:
        """The sandbox, as reported with the worker's hardware."""
        limits = self.limits
        return {
            "kind": self.kind,
            "memory_bytes": limits.memory_bytes,
            "processes": limits.processes,
            "disk_bytes": limits.disk_bytes,
            "memory_cgroup": self.isolation.cgroups is not None,
        }


def needs_sandbox(spec: Mapping[str, Any]) -> bool:
    """Whether a job with this spec runs custom code."""
    model = spec.get("model")
    return isinstance(model, Mapping) and model.get("kind") == BUNDLE
