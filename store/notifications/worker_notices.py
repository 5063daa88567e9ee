"""Messages about workers, which go to the subscriptions of every project."""

from sqlalchemy.orm import Session

from ampspec.notifications.messages import worker_message
from ampspec.notifications.types import NotificationType
from store.notifications import outbox
from store.notifications.outbox import Notice
from store.tables import Worker


def publish(
    session: Session, notification: NotificationType, worker: Worker, occasion: str = ""
) -> None:
    """Write the messages about a worker; none about one that was started for one job.

    Args:
        session: The session, in the transaction of the change.
        notification: What happened.
        worker: The worker.
        occasion: Tells repeated notices of one type apart.
    """
    if worker.job_id is None:
        message = worker_message(notification, worker.id, worker.hostname)
        source = " ".join(filter(None, (notification, worker.id, occasion)))
        outbox.publish(session, Notice(message, source, project=None))
