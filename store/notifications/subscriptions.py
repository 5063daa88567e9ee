"""Subscriptions: create, list, change, disable; and who signs what is sent to them."""

import base64
import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import func, literal, select, tuple_, update
from sqlalchemy.orm import Session

from ampspec.jobs import State
from ampspec.notifications.messages import disabled_message, job_message
from ampspec.notifications.types import OF_STATE
from store.access.projects import QuotaReached
from store.clock import UtcDateTime, from_now, now, seconds_since
from store.notifications import outbox
from store.notifications.outbox import Notice
from store.tables import Delivery, Job, Project, Subscription

WEBHOOK: Final = "webhook"
SERVICE: Final = "service"
EMAIL: Final = "email"

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - of Standard Webhooks, and no secret
SECRET_BYTES: Final = 32
PREVIOUS_SECRET_S: Final = 86_400.0
"""How long messages are signed with the previous secret, too, after a rotation."""
DISABLED_AFTER_S: Final = 5 * 86_400.0
"""A subscription whose tries all fail for this long is disabled."""
MAX_SUBSCRIPTIONS: Final = 100
MAX_JOB_SUBSCRIPTIONS: Final = 1_000
"""Open subscriptions of a project to one job. A change of a job reads those of its project."""
IS_DISABLED: Final = "The subscription was disabled before this was sent."


def new_secret() -> str:
    """A secret in the form of Standard Webhooks."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode("ascii")


def create(session: Session, **values: Any) -> Subscription:
    """Insert a subscription. Raises QuotaReached.

    A subscription to a job that has ended gets its message at once.
    """
    _check_quota(session, values["project"], is_for_job=values.get("job_id") is not None)
    # Locked: the job may end at this moment. Its transaction reads the subscriptions afterwards.
    job = _lock_job(session, values.get("job_id"))
    secret = new_secret() if values["channel"] == WEBHOOK else None
    subscription = Subscription(secret=secret, **values)
    session.add(subscription)
    session.flush()
    session.refresh(subscription)
    if job is not None and job.finished_at is not None:
        notification = OF_STATE[State(job.state)]
        outbox.write(
            session, subscription, job_message(notification, job), f"{notification} {job.id} ended"
        )
        outbox.complete(session, [subscription.id])
        session.refresh(subscription)
    return subscription


def get(session: Session, subscription_id: str, *, project: str | None) -> Subscription | None:
    """The subscription with that id, in that project if one is given; None if there is none."""
    row = session.get(Subscription, subscription_id, populate_existing=True)
    return row if row is not None and project in (None, row.project) else None


def page(
    session: Session,
    *,
    project: str | None,
    job_id: str | None,
    position: tuple[datetime, str] | None,
    limit: int | None,
) -> Sequence[Subscription]:
    """At most `limit` subscriptions, the newest first.

    Args:
        session: The session.
        project: Only those of this project.
        job_id: Only those to this job.
        position: The creation time and the id of the last subscription of the page before.
        limit: The maximum number; None for all.
    """
    order = (Subscription.created_at.desc(), Subscription.id.desc())
    statement = select(Subscription).order_by(*order).limit(limit)
    if project is not None:
        statement = statement.where(Subscription.project == project)
    if job_id is not None:
        statement = statement.where(Subscription.job_id == job_id)
    if position is not None:
        created_at, subscription_id = position
        last = tuple_(literal(created_at, UtcDateTime()), literal(subscription_id))
        statement = statement.where(tuple_(Subscription.created_at, Subscription.id) < last)
    return session.scalars(statement).all()


def update_fields(session: Session, subscription_id: str, **values: Any) -> Subscription | None:
    """Set columns of a subscription; None if there is no such one."""
    statement = (
        update(Subscription)
        .where(Subscription.id == subscription_id)
        .values(updated_at=now(), **values)
        .returning(Subscription)
        .execution_options(populate_existing=True, synchronize_session=False)
    )
    return session.scalars(statement).one_or_none()


def rotate(session: Session, subscription_id: str) -> Subscription | None:
    """Give a webhook a new secret; for a day messages are signed with the previous one, too."""
    return update_fields(
        session,
        subscription_id,
        previous_secret=Subscription.secret,
        previous_secret_until=from_now(PREVIOUS_SECRET_S),
        secret=new_secret(),
    )


def enable(session: Session, subscription_id: str) -> Subscription | None:
    """Send messages again."""
    values = {"disabled_at": None, "disabled_reason": None, "failing_since": None}
    return update_fields(session, subscription_id, **values)


def disable(session: Session, subscription: Subscription, reason: str) -> Subscription:
    """Send nothing more; what was waiting has failed, and the other subscriptions are told."""
    update_fields(session, subscription.id, disabled_at=now(), disabled_reason=reason)
    session.execute(
        update(Delivery)
        .where(Delivery.subscription_id == subscription.id, Delivery.state == "pending")
        .values(
            state="failed",
            finished_at=now(),
            claim=None,
            claimed_until=None,
            error=func.coalesce(Delivery.error, IS_DISABLED),
        )
        .execution_options(synchronize_session=False)
    )
    session.refresh(subscription)
    message = disabled_message(subscription.id, subscription.name, reason)
    source = f"{message.type} {subscription.id} {subscription.disabled_at}"
    project = subscription.project
    outbox.publish(session, Notice(message, source, project, except_for=subscription.id))
    return subscription


def count_failure(session: Session, subscription_id: str) -> float:
    """Record that a try failed; returns for how many seconds all of them have."""
    statement = (
        update(Subscription)
        .where(Subscription.id == subscription_id)
        .values(failing_since=func.coalesce(Subscription.failing_since, now()))
        .returning(seconds_since(Subscription.failing_since))
        .execution_options(synchronize_session=False)
    )
    return float(session.scalar(statement) or 0.0)


def count_success(session: Session, subscription_id: str) -> None:
    """Record that a try succeeded."""
    session.execute(
        update(Subscription)
        .where(Subscription.id == subscription_id, Subscription.failing_since.is_not(None))
        .values(failing_since=None)
        .execution_options(synchronize_session=False)
    )


def _check_quota(session: Session, project: str, *, is_for_job: bool) -> None:
    # Locked, so that of two concurrent requests the second one counts what the first has added.
    session.scalar(
        select(Project.name).where(Project.name == project).with_for_update(key_share=True)
    )
    limit = MAX_JOB_SUBSCRIPTIONS if is_for_job else MAX_SUBSCRIPTIONS
    has_job = Subscription.job_id.is_not(None)
    statement = select(func.count()).where(
        Subscription.project == project,
        Subscription.completed_at.is_(None),
        has_job if is_for_job else ~has_job,
    )
    if (session.scalar(statement) or 0) >= limit:
        what = "subscriptions to one job" if is_for_job else "subscriptions"
        raise QuotaReached(
            f"The project {project!r} has reached its quota of {limit} {what} to notifications. "
            "Delete one first."
        )


def _lock_job(session: Session, job_id: str | None) -> Job | None:
    if job_id is None:
        return None
    statement = select(Job).where(Job.id == job_id).with_for_update(key_share=True)
    return session.scalars(statement.execution_options(populate_existing=True)).one_or_none()
