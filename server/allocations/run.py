"""`ampserver schedule`: run a scheduler until SIGTERM or Ctrl-C."""

import logging
import signal
import threading

from server.allocations.scheduler import Scheduler
from server.allocations.slurm import Slurm
from server.allocations.slurm_settings import SlurmSettings
from store.database import Database

log = logging.getLogger(__name__)


def run_scheduler(database_url: str, settings: SlurmSettings) -> None:
    """Serve the queues of the settings until SIGTERM or Ctrl-C.

    Args:
        database_url: The database of the server.
        settings: The queues, and how their jobs are submitted.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    database = Database(database_url)
    scheduler = create_scheduler(database, settings)
    scheduler.start()
    log.info("scheduling the queues %s with Slurm", ", ".join(sorted(settings.queues)))
    stop.wait()
    log.info("the scheduler stops; what it has submitted goes on")
    scheduler.stop()
    database.close()


def create_scheduler(database: Database, settings: SlurmSettings) -> Scheduler:
    """A scheduler with these settings, which is not started yet.

    Args:
        database: That of the server.
        settings: The queues, and how their jobs are submitted.

    Returns:
        The scheduler.
    """
    return Scheduler(
        database,
        Slurm(settings),
        max_pending={name: queue.max_pending for name, queue in settings.queues.items()},
        poll_s=settings.poll_s,
    )
