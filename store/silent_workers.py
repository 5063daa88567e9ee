"""Notice that a worker is lost, or online again: no process reports that itself."""

from typing import Any, Final

from sqlalchemy import Connection, and_, or_, select, update
from sqlalchemy.orm import Session

from ampspec.notifications.types import NotificationType
from store.clock import from_now, now
from store.notifications import worker_notices
from store.tables import Worker
from store.workers import HEARTBEAT_TIMEOUT_S

_IS_SILENT: Final = Worker.last_seen_at < from_now(-HEARTBEAT_TIMEOUT_S)
_IS_LOST: Final = and_(Worker.stopped_at.is_(None), _IS_SILENT)
# Built once: a server executes it every few seconds.
_HAVE_CHANGED: Final = (
    select(Worker.id)
    .where(
        or_(
            and_(Worker.lost_at.is_(None), _IS_LOST), and_(Worker.lost_at.is_not(None), ~_IS_SILENT)
        )
    )
    .limit(1)
)


def have_changed(connection: Connection) -> bool:
    """Whether a worker was lost or has recovered since the last call of `publish`."""
    return connection.execute(_HAVE_CHANGED).one_or_none() is not None


def publish(session: Session) -> None:
    """Write a message for each worker that was lost or has recovered; two servers write it once."""
    for worker in _mark(session, and_(Worker.lost_at.is_(None), _IS_LOST), now()):
        occasion = worker.last_seen_at.isoformat()
        worker_notices.publish(session, NotificationType.WORKER_LOST, worker, occasion)
    for worker in _mark(session, and_(Worker.lost_at.is_not(None), ~_IS_SILENT), None):
        if worker.stopped_at is None:
            occasion = worker.last_seen_at.isoformat()
            worker_notices.publish(session, NotificationType.WORKER_RECOVERED, worker, occasion)


def _mark(session: Session, condition: Any, lost_at: Any) -> list[Worker]:
    statement = (
        update(Worker)
        .where(condition)
        .values(lost_at=lost_at)
        .returning(Worker)
        .execution_options(populate_existing=True, synchronize_session=False)
    )
    return list(session.scalars(statement))
