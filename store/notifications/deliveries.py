"""Deliveries: claim what is due, record how a try ended, list, send again, delete what is old."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, and_, delete, exists, func, literal, or_, select, tuple_, update
from sqlalchemy.orm import Session, aliased

from store.clock import UtcDateTime, from_now, now
from store.notifications import subscriptions
from store.tables import Delivery, Job, Subscription, new_id

PENDING: Final = "pending"
DELIVERED: Final = "delivered"
FAILED: Final = "failed"
STATES: Final = (PENDING, DELIVERED, FAILED)

CLAIM_S: Final = 120.0
"""Another server tries a delivery this long after a claim without a report: longer than a try."""
RETENTION_S: Final = 30 * 86_400.0
MAX_KEPT: Final = 1_000
"""Deliveries of a subscription that are kept after they ended, for at most 30 days."""
MAX_PENDING: Final = 1_000
"""Deliveries of a subscription that may wait; the oldest fail when there are more."""
TOO_MANY_PENDING: Final = f"More than {MAX_PENDING} later messages were waiting."

_is_unclaimed: Final = or_(Delivery.claimed_until.is_(None), Delivery.claimed_until < now())
_is_due: Final = and_(Delivery.state == literal(PENDING), Delivery.due_at <= now(), _is_unclaimed)
# Built once: every server executes it each second.
_HAS_DUE: Final = select(Delivery.id).where(_is_due).limit(1)


@dataclass(frozen=True)
class ClaimedDelivery:
    """A message to send now, and to whom."""

    id: str
    claim: str
    """Whoever has another claim may not record how the try ended."""
    attempts: int
    """The number of this try, from 1."""
    type: str
    body: str
    subscription_id: str
    channel: str
    target: str
    secrets: tuple[str, ...]
    """What the message is signed with."""


@dataclass(frozen=True)
class TryResult:
    """How a try ended; without an error it succeeded."""

    error: str | None = None
    status_code: int | None = None
    response: str | None = None
    duration_s: float = 0.0
    retry_in_s: float | None = None
    """After a failure: when the next try is due; None: there is none."""
    disable_reason: str | None = None
    """Why nothing more may be sent to the receiver."""


def has_due(connection: Connection) -> bool:
    """Whether something is due that nobody has claimed."""
    return connection.execute(_HAS_DUE).one_or_none() is not None


def claim(session: Session, *, limit: int, claim_s: float = CLAIM_S) -> list[ClaimedDelivery]:
    """Claim what is due: of each subscription one, and none while another try of it is running.

    So a receiver that is slow or down gets one request at a time, and keeps nobody else waiting.
    """
    in_progress = aliased(Delivery)
    is_busy = exists().where(
        in_progress.subscription_id == Delivery.subscription_id,
        in_progress.claimed_until >= now(),
    )
    waiting = (
        select(Delivery.subscription_id)
        .where(_is_due, ~is_busy)
        .group_by(Delivery.subscription_id)
        .order_by(func.min(Delivery.due_at))
        .limit(limit)
    )
    claimed: list[ClaimedDelivery] = []
    for subscription_id in session.scalars(waiting).all():
        first = (
            select(Delivery)
            .where(Delivery.subscription_id == subscription_id, _is_due)
            .order_by(Delivery.due_at, Delivery.created_at, Delivery.id)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        row = session.scalars(first.execution_options(populate_existing=True)).one_or_none()
        subscription = session.get(Subscription, subscription_id)
        if row is not None and subscription is not None:
            claimed.append(_claim(session, row, subscription, claim_s))
    return claimed


def _claim(
    session: Session, row: Delivery, subscription: Subscription, claim_s: float
) -> ClaimedDelivery:
    token = new_id()
    values = {"claim": token, "attempts": Delivery.attempts + 1, "attempted_at": now()}
    session.execute(
        update(Delivery)
        .where(Delivery.id == row.id)
        .values(claimed_until=from_now(claim_s), **values)
        .execution_options(synchronize_session=False)
    )
    secrets = [subscription.secret] if subscription.secret else []
    if subscription.previous_secret and session.scalar(
        select(Subscription.previous_secret_until > now()).where(Subscription.id == subscription.id)
    ):
        secrets.append(subscription.previous_secret)
    return ClaimedDelivery(
        row.id,
        token,
        row.attempts + 1,
        row.type,
        row.body,
        subscription.id,
        subscription.channel,
        subscription.target,
        tuple(secrets),
    )


def record(session: Session, claimed: ClaimedDelivery, result: TryResult) -> bool:
    """Record how a try ended; False, and nothing is changed, if the claim is not valid any more."""
    if result.error is None:
        outcome: dict[str, Any] = {"state": DELIVERED, "finished_at": now()}
    elif result.retry_in_s is None:
        outcome = {"state": FAILED, "finished_at": now()}
    else:
        outcome = {"due_at": from_now(result.retry_in_s)}
    statement = (
        update(Delivery)
        .where(Delivery.id == claimed.id, Delivery.claim == claimed.claim)
        .values(
            claim=None,
            claimed_until=None,
            error=result.error,
            status_code=result.status_code,
            response=result.response,
            duration_s=result.duration_s,
            **outcome,
        )
        .returning(Delivery.id)
        .execution_options(synchronize_session=False)
    )
    if session.scalars(statement).one_or_none() is None:
        return False
    if result.error is None:
        subscriptions.count_success(session, claimed.subscription_id)
    else:
        _count_failure(session, claimed.subscription_id, result)
    return True


def _count_failure(session: Session, subscription_id: str, result: TryResult) -> None:
    failing_s = subscriptions.count_failure(session, subscription_id)
    reason = result.disable_reason
    if reason is None and failing_s >= subscriptions.DISABLED_AFTER_S:
        days = subscriptions.DISABLED_AFTER_S / 86_400
        reason = f"Every message failed for {days:g} days. The last error: {result.error}"
    subscription = session.get(Subscription, subscription_id, populate_existing=True)
    if reason is not None and subscription is not None and subscription.disabled_at is None:
        subscriptions.disable(session, subscription, reason)


def get(session: Session, subscription_id: str, delivery_id: str) -> Delivery | None:
    """The delivery of a subscription; None if there is none."""
    row = session.get(Delivery, delivery_id, populate_existing=True)
    return row if row is not None and row.subscription_id == subscription_id else None


def page(
    session: Session,
    subscription_id: str,
    *,
    state: str | None,
    position: tuple[datetime, str] | None,
    limit: int,
) -> Sequence[Delivery]:
    """At most `limit` deliveries of a subscription, the newest first.

    Args:
        session: The session.
        subscription_id: The subscription.
        state: Only those in this state.
        position: The creation time and the id of the last delivery of the page before.
        limit: The maximum number.
    """
    statement = select(Delivery).where(Delivery.subscription_id == subscription_id)
    if state is not None:
        statement = statement.where(Delivery.state == state)
    if position is not None:
        created_at, delivery_id = position
        last = tuple_(literal(created_at, UtcDateTime()), literal(delivery_id))
        statement = statement.where(tuple_(Delivery.created_at, Delivery.id) < last)
    order = (Delivery.created_at.desc(), Delivery.id.desc())
    return session.scalars(statement.order_by(*order).limit(limit)).all()


def resend(session: Session, delivery_id: str) -> Delivery | None:
    """Send a delivery that has ended again, with the same id; None if it has not ended."""
    ended = (Delivery.id == delivery_id, Delivery.state != PENDING)
    statement = _as_new(*ended).returning(Delivery)
    options = {"populate_existing": True, "synchronize_session": False}
    return session.scalars(statement.execution_options(**options)).one_or_none()


def resend_failed(session: Session, subscription_id: str, since: datetime) -> int:
    """Send again what was written since then and has failed; returns how many these are."""
    failed = (
        Delivery.subscription_id == subscription_id,
        Delivery.state == FAILED,
        Delivery.created_at >= since,
    )
    options = {"synchronize_session": False}
    return len(
        session.scalars(_as_new(*failed).returning(Delivery.id), execution_options=options).all()
    )


def _as_new(*conditions: Any) -> Any:
    unclaimed = {"claim": None, "claimed_until": None}
    values = {"state": PENDING, "attempts": 0, "due_at": now(), "finished_at": None}
    return update(Delivery).where(*conditions).values(**values, **unclaimed)


def delete_old(session: Session) -> None:
    """Delete old deliveries, and subscriptions to jobs that have ended or were deleted."""
    options = {"synchronize_session": False}
    ended = Delivery.state != PENDING
    session.execute(
        delete(Delivery)
        .where(ended, Delivery.created_at < from_now(-RETENTION_S))
        .execution_options(**options)
    )
    place = func.row_number().over(
        partition_by=(Delivery.subscription_id, ended),
        order_by=(Delivery.created_at.desc(), Delivery.id.desc()),
    )
    placed = select(Delivery.id, Delivery.state, place.label("place")).subquery()
    beyond = select(placed.c.id).where(placed.c.state != PENDING, placed.c.place > MAX_KEPT)
    session.execute(delete(Delivery).where(Delivery.id.in_(beyond)).execution_options(**options))
    waiting = select(placed.c.id).where(placed.c.state == PENDING, placed.c.place > MAX_PENDING)
    session.execute(
        update(Delivery)
        .where(Delivery.id.in_(waiting), Delivery.claim.is_(None))
        .values(state=FAILED, finished_at=now(), error=TOO_MANY_PENDING)
        .execution_options(**options)
    )
    is_unsent = exists().where(
        Delivery.subscription_id == Subscription.id, Delivery.state == PENDING
    )
    is_over = or_(
        Subscription.completed_at < from_now(-RETENTION_S),
        and_(
            Subscription.completed_at.is_(None),
            ~exists().where(Job.id == Subscription.job_id),
        ),
    )
    session.execute(
        delete(Subscription)
        .where(Subscription.job_id.is_not(None), is_over, ~is_unsent)
        .execution_options(**options)
    )
