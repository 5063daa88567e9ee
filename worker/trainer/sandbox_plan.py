"""Plans the sandbox of jobs with custom code: the best one that this machine allows.

Each candidate is tried once: a process confines itself as a trainer would.
"""

import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from ampspec.jobs import Reason
from infra.isolation import imported_files, landlock, seccomp
from infra.isolation.sandboxed_trainer import SandboxedTrainer
from infra.job_failure import JobFailure
from worker.trainer.fork_server import trainer_environment
from worker.trainer.isolation import Isolation
from worker.trainer.isolation_plan import (
    available_memory_bytes,
    can_run_as,
    closed_to_others,
    program_folders,
)
from worker.trainer.memory_cgroups import MemoryCgroups
from worker.trainer.sandbox import Sandbox, SandboxKind, SandboxLimits

log = logging.getLogger(__name__)

DEFAULT_PROCESSES: Final = 2048
DEFAULT_DISK_BYTES: Final = 20 * 2**30
DEFAULT_MEMORY_SHARE: Final = 0.75
"""Of the memory of the machine or container, for all slots together."""
TRIAL_TIMEOUT_S: Final = 60.0
MAX_ERROR: Final = 200
UID_MAP: Final = Path("/proc/self/uid_map")
ALL_USERS: Final = ["0", "0", str(2**32 - 1)]
"""The map of the machine's own user namespace."""
NO_USER_NAMESPACE: Final = (
    "AMPCORE_BUNDLE_USER_NAMESPACE is required, and this worker has no user namespace of its own."
)


class SandboxMode(StrEnum):
    """The values of AMPCORE_BUNDLE_SANDBOX."""

    AUTO = "auto"
    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    OFF = "off"


class UserNamespaceMode(StrEnum):
    """The values of AMPCORE_BUNDLE_USER_NAMESPACE."""

    ANY = "any"
    REQUIRED = "required"
    """Only another one than the machine's: there, root in a container is root on the machine."""


class SandboxMissing(JobFailure):
    """A job with custom code came to a worker without a sandbox; the message says why."""

    reason = Reason.NO_SANDBOX


@dataclass(frozen=True)
class SandboxSettings:
    """The settings about the sandbox."""

    mode: SandboxMode = SandboxMode.AUTO
    memory_bytes: int | None = None
    """Of each job; None: a share of the machine's or container's memory, divided by the slots."""
    processes: int = DEFAULT_PROCESSES
    disk_bytes: int = DEFAULT_DISK_BYTES
    user_namespace: UserNamespaceMode = UserNamespaceMode.ANY
    """Which user namespaces of the worker allow a sandbox."""


@dataclass(frozen=True)
class SandboxPlan:
    """The sandbox of a worker, or why it has none."""

    sandbox: Sandbox | None = None
    missing: tuple[str, ...] = ("AMPCORE_BUNDLE_SANDBOX is off.",)
    """Why each better sandbox is not used; without a sandbox, why there is none."""

    def describe(self) -> dict[str, Any]:
        """The sandbox, as reported with the worker's hardware."""
        description = self.sandbox.describe() if self.sandbox is not None else {"kind": None}
        return {**description, "missing": list(self.missing)}

    def log(self) -> None:
        """Log which sandbox this worker has."""
        if self.sandbox is not None:
            log.info("jobs with custom code run in a sandbox: %s", self.sandbox.describe())
        for sentence in self.missing:
            log.info("jobs with custom code: %s", sentence)
        if self.sandbox is None:
            log.info("this worker takes no jobs with custom code: it has no sandbox")


def plan_sandbox(
    settings: SandboxSettings,
    *,
    users: range,
    parent: Path,
    datasets: Path,
    slots: int = 1,
    cgroups: MemoryCgroups | None = None,
    uid_map: Path = UID_MAP,
) -> SandboxPlan:
    """The first sandbox that the settings allow and that works on this machine.

    Args:
        settings: Which sandboxes are allowed, and their limits.
        users: The user ids for trainers of a worker that is root.
        parent: This worker's folder in the scratch folder; need not exist yet.
        datasets: The folder of the data that jobs read.
        slots: How many jobs this worker runs at a time; they share the memory.
        cgroups: Makes the memory cgroups of trainers; None: none can be made here.
        uid_map: What says how users of this process are mapped to those of the machine.
    """
    if settings.mode is SandboxMode.OFF:
        return SandboxPlan()
    is_required = settings.user_namespace is UserNamespaceMode.REQUIRED
    if is_required and not _is_mapped(uid_map):
        return SandboxPlan(missing=(NO_USER_NAMESPACE,))
    isolation = Isolation(
        parent=parent,
        datasets=datasets,
        users=users if can_run_as(users) else None,
        landlock_abi=landlock.abi(),
        cgroups=cgroups,
    )
    share = DEFAULT_MEMORY_SHARE / slots
    memory_bytes = settings.memory_bytes or int(available_memory_bytes() * share)
    limits = SandboxLimits(memory_bytes, settings.processes, settings.disk_bytes)
    missing: list[str] = []
    for kind in SandboxKind:
        if settings.mode in (SandboxMode.AUTO, kind):
            sandbox = Sandbox(kind, isolation, limits, _program(kind))
            problem = next(_problems(sandbox), None)
            if problem is None:
                return SandboxPlan(sandbox, tuple(missing))
            missing.append(f"The sandbox {kind} is not available: {problem}.")
    return SandboxPlan(None, tuple(missing))


def _is_mapped(uid_map: Path) -> bool:
    """Whether root in this process's user namespace is another user of the machine."""
    try:
        return uid_map.read_text().split() != ALL_USERS
    except OSError:  # a kernel without user namespaces
        return False


def _program(kind: SandboxKind) -> Path | None:
    path = shutil.which("bwrap") if kind is SandboxKind.BUBBLEWRAP else None
    return Path(path) if path is not None else None


def _problems(sandbox: Sandbox) -> Iterator[str]:
    """Why a sandbox does not work here; the last check is a trial."""
    isolation = sandbox.isolation
    if not seccomp.is_supported():
        yield "it needs Linux on x86-64 or ARM64, with seccomp"
    if os.geteuid() == 0 and isolation.users is None:
        yield (
            "this worker is root without the capabilities to run a trainer as another user, "
            "or the user ids of AMPCORE_TRAINER_USERS are not mapped"
        )
    checks: dict[SandboxKind, Callable[[Sandbox], Iterator[str]]] = {
        SandboxKind.BUBBLEWRAP: _problems_of_bubblewrap,
        SandboxKind.LANDLOCK: _problems_of_landlock,
    }
    yield from checks[sandbox.kind](sandbox)
    if (error := _try(sandbox)) is not None:
        yield error


def _problems_of_bubblewrap(sandbox: Sandbox) -> Iterator[str]:
    if sandbox.bubblewrap is None:
        yield "the program bwrap is not installed (Debian's package bubblewrap)"


def _problems_of_landlock(sandbox: Sandbox) -> Iterator[str]:
    isolation = sandbox.isolation
    if isolation.landlock_abi < landlock.TCP_ABI:
        yield "this kernel has no Landlock 4 (added in Linux 6.7)"
    if isolation.users is None:
        yield "it needs a worker that is root, so that each trainer has a separate user"
    folders = [*program_folders(), isolation.parent.parent.parent, isolation.datasets]
    if (closed := closed_to_others(folders)) is not None:
        yield f"other users cannot enter {closed}"


def _try(sandbox: Sandbox) -> str | None:
    """Confine a process in this sandbox; the error, or None if that works."""
    with tempfile.TemporaryDirectory(prefix="ampcore-sandbox-") as folder:
        parent = Path(folder) / "worker"
        parent.mkdir()
        candidate = replace(sandbox, isolation=replace(sandbox.isolation, parent=parent))
        try:
            trainer_folder = candidate.new_folder()
        except OSError as error:
            return str(error)
        trainer = SandboxedTrainer(trainer_folder.confinement, tuple(imported_files()))
        try:
            completed = subprocess.run(
                trainer.command(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env=trainer_environment(),
                timeout=TRIAL_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)[:MAX_ERROR]
        finally:
            trainer_folder.close()
    lines = completed.stderr.decode(errors="replace").strip().splitlines()
    said = lines[-1].strip()[:MAX_ERROR] if lines else f"exit code {completed.returncode}"
    return said if completed.returncode else None
