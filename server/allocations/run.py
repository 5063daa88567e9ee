"""`ampserver schedule`: run a scheduler until SIGTERM or Ctrl-C."""

import logging
import signal
import threading

from server.allocations.engines import SchedulerPlan
from server.allocations.scheduler import Scheduler
from store.database import Database

log = logging.getLogger(__name__)


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
