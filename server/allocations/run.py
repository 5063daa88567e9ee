"""`ampserver schedule`: run a scheduler until SIGTERM or Ctrl-C."""

import logging
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from server.allocations.batch_system import BatchSystem
from server.allocations.kubernetes import Kubernetes
from server.allocations.kubernetes_settings import read_kubernetes_settings
from server.allocations.scheduler import Scheduler
from server.allocations.slurm import Slurm
from server.allocations.slurm_settings import read_slurm_settings
from store.database import Database

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SchedulerPlan:
    """What a scheduler is made of.

    Args:
        batch_system: Where the jobs get their devices.
        max_pending: By queue, how many allocations may wait there at a time.
        poll_s: The pause between two rounds, in seconds.
    """

    batch_system: BatchSystem
    max_pending: Mapping[str, int]
    poll_s: float


def run_scheduler(database_url: str, plan: SchedulerPlan) -> None:
    """Serve the queues of a plan until SIGTERM or Ctrl-C.

    Args:
        database_url: The database of the server.
        plan: The batch system and its queues.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    database = Database(database_url)
    scheduler = create_scheduler(database, plan)
    scheduler.start()
    queues = ", ".join(sorted(plan.max_pending))
    log.info("scheduling the queues %s with %s", queues, plan.batch_system.engine)
    stop.wait()
    log.info("the scheduler stops; what it has submitted goes on")
    scheduler.stop()
    database.close()


def create_scheduler(database: Database, plan: SchedulerPlan) -> Scheduler:
    """A scheduler for this plan, which is not started yet.

    Args:
        database: The database of the server.
        plan: The batch system and its queues.

    Returns:
        The scheduler.
    """
    return Scheduler(database, plan.batch_system, max_pending=plan.max_pending, poll_s=plan.poll_s)


def _slurm(config: Path) -> SchedulerPlan:
    settings = read_slurm_settings(config)
    max_pending = {name: queue.max_pending for name, queue in settings.queues.items()}
    return SchedulerPlan(Slurm(settings), max_pending, settings.poll_s)


def _kubernetes(config: Path) -> SchedulerPlan:
    settings = read_kubernetes_settings(config)
    max_pending = {name: queue.max_pending for name, queue in settings.queues.items()}
    return SchedulerPlan(Kubernetes(settings), max_pending, settings.poll_s)


ENGINES: Final[Mapping[str, Callable[[Path], SchedulerPlan]]] = {
    "slurm": _slurm,
    "kubernetes": _kubernetes,
}
"""By the name of a batch system: reads its settings from a file. May raise SettingsInvalid."""
