"""The outbox: writes a message for each subscription, in the transaction of what it is about."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import Row, bindparam, or_, select, true, update
from sqlalchemy.orm import Session

from ampspec.jobs import State
from ampspec.notifications.events import OF_EVENT, ONCE_PER_ATTEMPT
from ampspec.notifications.messages import Message, event_message, job_message
from ampspec.notifications.types import ENDS, OF_STATE, matches
from ampspec.telemetry import Event, EventType
from ampspec.telemetry.json_values import json_safe
from store.clock import now
from store.rows import insert_if_absent
from store.tables import Delivery, Job, Subscription, new_id


@dataclass(frozen=True)
class Notice:
    """A message, and which subscriptions may get it."""

    message: Message
    source: str
    """What it is about: a subscription gets one message for each source."""
    project: str | None
    """The project whose subscriptions get it; None: those of every project."""
    job_id: str | None = None
    except_for: str | None = None
    """The id of a subscription that does not get it."""


# Built once: every change of a job's state executes it.
_ADDRESSEE: Final[Sequence[Any]] = (
    *(Subscription.id, Subscription.project, Subscription.types),
    *(Subscription.job_id, Subscription.link_base),
)
_OPEN: Final = (
    select(*_ADDRESSEE)
    .where(Subscription.disabled_at.is_(None), Subscription.completed_at.is_(None))
    .where(or_(Subscription.job_id.is_(None), Subscription.job_id == bindparam("job_id")))
    .order_by(Subscription.id)
)
_OPEN_OF_PROJECT: Final = _OPEN.where(Subscription.project == bindparam("project"))
_FACTS: Final[Sequence[Any]] = (
    *(Job.id, Job.project, Job.name, Job.state, Job.reason, Job.message),
    *(Job.attempt, Job.seq, Job.step, Job.total_steps),
)
_JOBS: Final = select(*_FACTS).where(Job.id.in_(bindparam("job_ids", expanding=True)))


def job_changed(session: Session, job: Job) -> None:
    """Write the messages about the new state of a job, if there is a notification of it."""
    _publish_state(session, job)


def jobs_changed(session: Session, job_ids: Sequence[str]) -> None:
    """Like `job_changed`, for several jobs."""
    if job_ids and session.scalar(select(Subscription.id).limit(1)) is not None:
        for job in session.connection().execute(_JOBS, {"job_ids": list(job_ids)}):
            _publish_state(session, job)


def events_written(session: Session, job_id: str, events: Sequence[tuple[int, Event]]) -> None:
    """Write the messages about events of a job, each with its `seq`."""
    notable = [(seq, event) for seq, event in events if _is_notable(event)]
    if not notable:
        return
    job = session.connection().execute(_JOBS, {"job_ids": [job_id]}).one()
    for seq, event in notable:
        notification = OF_EVENT[event.type]
        once = notification in ONCE_PER_ATTEMPT
        place = f"attempt {job.attempt}" if once else f"seq {seq}"
        message = event_message(notification, job, event.step, json_safe(event.data))
        source = f"{notification} {job.id} {place}"
        publish(session, Notice(message, source, job.project, job.id))


def publish(session: Session, notice: Notice) -> int:
    """Write a message for each open subscription that wants it.

    Args:
        session: The session, in the transaction of what the message is about.
        notice: The message.

    Returns:
        The number of the subscriptions.
    """
    statement = _OPEN if notice.project is None else _OPEN_OF_PROJECT
    parameters = {"job_id": notice.job_id, "project": notice.project}
    rows = session.connection().execute(statement, parameters).all()
    subscriptions = [
        row
        for row in rows
        if row.id != notice.except_for and matches(row.types or (), notice.message.type)
    ]
    for subscription in subscriptions:
        write(session, subscription, notice.message, notice.source)
    if notice.message.type in ENDS:
        complete(session, [row.id for row in subscriptions if row.job_id is not None])
    return len(subscriptions)


def write(
    session: Session, subscription: Subscription | Row[Any], message: Message, source: str
) -> str:
    """Write a message for a subscription, unless it has one with the same source; its id."""
    delivery_id = new_id()
    link = f"{subscription.link_base}/{message.path}" if subscription.link_base else None
    document = {
        "type": message.type,
        "timestamp": datetime.now(UTC).isoformat(),
        "data": {
            "project": subscription.project,
            "title": message.title,
            "text": message.text,
            "link": link,
            **message.facts,
        },
    }
    body = json.dumps(json_safe(document), separators=(",", ":"), allow_nan=False)
    values = {"subscription_id": subscription.id, "source": source, "type": message.type}
    statement = insert_if_absent(session, Delivery, id=delivery_id, body=body, **values)
    session.execute(statement)
    return delivery_id


def complete(session: Session, subscription_ids: Sequence[str]) -> None:
    """End subscriptions to one job: nothing more is written for them."""
    if subscription_ids:
        session.execute(
            update(Subscription)
            .where(Subscription.id.in_(subscription_ids))
            .values(completed_at=now())
            .execution_options(synchronize_session=False)
        )


def has_any(session: Session) -> bool:
    """Whether there is an open subscription to anything but one job."""
    statement = select(true()).where(
        Subscription.disabled_at.is_(None), Subscription.job_id.is_(None)
    )
    return session.scalar(statement.limit(1)) is not None


def _publish_state(session: Session, job: Job | Row[Any]) -> None:
    notification = OF_STATE.get(State(job.state))
    if notification is not None:
        source = f"{notification} {job.id} seq {job.seq}"
        message = job_message(notification, job)
        publish(session, Notice(message, source, job.project, job.id))


def _is_notable(event: Event) -> bool:
    if event.type is EventType.OVERFLOW:
        return "diagnosis" in event.data
    return event.type in OF_EVENT
