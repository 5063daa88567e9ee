"""The queues that have queued jobs, found by one lookup in an index for each queue."""

from typing import Any

from sqlalchemy import CTE, func, select

from store.tables import Job
from store.tables.jobs import QUEUED


def queue_names() -> CTE:
    """The names of the queues with queued jobs, as a table with the column `queue`.

    Each row is the smallest name above the one before: with a hundred thousand queued jobs,
    DISTINCT would read them all. The last row is NULL.
    """
    first: Any = select(func.min(Job.queue).label("queue")).where(Job.state == QUEUED)
    names = first.cte("queue_names", recursive=True)
    above = select(func.min(Job.queue)).where(Job.state == QUEUED, Job.queue > names.c.queue)
    following = select(above.scalar_subquery()).where(names.c.queue.is_not(None))
    all_names: CTE = names.union_all(following)
    return all_names
