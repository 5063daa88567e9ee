"""WorkerContext: what all attempts of one worker share, from its database to its time limits."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ampspec.references.object_url import ObjectUrl
from infra.notify import Notifier
from infra.storage import Storage
from infra.storage_check import StorageCheck
from store.database import Database
from store.leases import LEASE_S, SELF_FENCE_S
from worker.plugins import PackageEntry
from worker.rank_ports import LOOPBACK
from worker.shutdown import GRACE_S, Shutdown
from worker.slots import MAX_SLOTS, Devices, Slots
from worker.trainer.isolation import Isolation
from worker.trainer.memory_cgroups import MemoryCgroup
from worker.trainer.oom_kills import OomKillCounter, memory_events_file
from worker.trainer.sandbox_plan import SandboxPlan
from worker.trainer.standby import READY_TIMEOUT_S, Standby
from worker.transfer.download_cache import DownloadCache
from worker.transfer.upload_progress import STALL_S
from worker.usage import SlotMetrics
from worker.work_dirs import WorkDirs

BUFFER_BYTES: Final = 64 * 2**20
"""How much telemetry of an attempt waits for the database before its trainer has to wait."""


@dataclass(frozen=True)
class WorkerContext:
    """The dependencies and limits of one worker's attempts; opens nothing by itself."""

    worker_id: str
    queues: tuple[str, ...]
    database: Database
    storage: Storage
    work_dirs: WorkDirs
    standby: Standby
    data_root: Path
    download_cache: DownloadCache
    notifier: Notifier
    job_id: str | None = None
    """The only job that it runs, before it ends; None: the jobs of its queues."""
    storage_check: StorageCheck | None = None
    """None: the storage is not checked before jobs are taken."""
    data_prefixes: Sequence[ObjectUrl] = ()
    """Prefixes of objects that jobs may name as data."""
    packages: Sequence[PackageEntry] = ()
    """The entries of the packages that are installed on it."""
    isolation: Isolation | None = None
    """How its trainers are isolated; None: not at all."""
    sandbox_plan: SandboxPlan = field(default_factory=SandboxPlan)
    """The sandbox of jobs with custom code; such jobs go to workers that have one."""
    slots: Slots = field(default_factory=lambda: Slots(MAX_SLOTS))
    """How many jobs and ranks it runs at a time."""
    devices: Devices = field(default_factory=Devices)
    """Which of its GPUs have ranks."""
    rank_host: str = LOOPBACK
    """The host of its ranks' addresses."""
    rank_ports: range | None = None
    """The ports on which its ranks listen; None: any."""
    lease_s: float = LEASE_S
    grace_s: float = GRACE_S
    self_fence_s: float = SELF_FENCE_S
    buffer_bytes: int = BUFFER_BYTES
    ready_timeout_s: float = READY_TIMEOUT_S
    memory_events: Path | None = field(default_factory=memory_events_file)
    metrics: SlotMetrics = field(default_factory=SlotMetrics)
    upload_stall_s: float = STALL_S
    shutting_down: Shutdown = field(default_factory=Shutdown)

    @property
    def may_take_jobs(self) -> bool:
        """Whether the files of a job could be stored."""
        return self.storage_check is None or self.storage_check.is_usable()

    def new_oom_kill_counter(self, cgroup: MemoryCgroup | None = None) -> OomKillCounter:
        """A counter that starts now, for an attempt whose trainer has this cgroup."""
        return OomKillCounter(cgroup.events if cgroup is not None else self.memory_events)
