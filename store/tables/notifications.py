"""The tables of notifications: who wants which messages, and what was sent to them."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String, Text, UniqueConstraint, and_, literal_column
from sqlalchemy.orm import Mapped, mapped_column

from store.clock import now
from store.tables.base import Base, new_id

PENDING = literal_column("'pending'", String)


class Subscription(Base):
    """A receiver of messages, and which messages of its project it gets."""

    __tablename__ = "notification_subscriptions"
    __table_args__ = (Index(None, "project", "created_at", "id"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    project: Mapped[str] = mapped_column(ForeignKey("projects.name", ondelete="CASCADE"))
    name: Mapped[str] = mapped_column(String(200))
    channel: Mapped[str] = mapped_column(String(16))
    """How messages are sent: webhook, service or email."""
    target: Mapped[str] = mapped_column(Text)
    """The address of the receiver, with what it contains of secrets."""
    types: Mapped[list[str]]
    """The types and groups of messages that it gets."""
    job_id: Mapped[str | None] = mapped_column(String(32))
    """The only job that it is about; the end of the job completes it."""
    secret: Mapped[str | None] = mapped_column(String(200))
    """What a webhook is signed with. It cannot be a hash: signing needs the secret itself."""
    previous_secret: Mapped[str | None] = mapped_column(String(200))
    previous_secret_until: Mapped[datetime | None]
    """Until when messages are signed with the previous secret, too."""
    link_base: Mapped[str | None] = mapped_column(String(500))
    """The address of the dashboard, for the links in messages."""
    created_by: Mapped[str | None] = mapped_column(String(200))
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    updated_at: Mapped[datetime] = mapped_column(insert_default=now())
    failing_since: Mapped[datetime | None]
    """When the first of the tries failed since the last one that succeeded."""
    disabled_at: Mapped[datetime | None]
    disabled_reason: Mapped[str | None] = mapped_column(Text)
    completed_at: Mapped[datetime | None]
    """When the job of `job_id` had ended: nothing more is sent."""


# A partial index: each change of a job reads the open subscriptions of its project, beside which
# those to jobs that have ended are many.
Index(
    "ix_notification_subscriptions_open",
    Subscription.project,
    Subscription.job_id,
    sqlite_where=and_(Subscription.disabled_at.is_(None), Subscription.completed_at.is_(None)),
    postgresql_where=and_(Subscription.disabled_at.is_(None), Subscription.completed_at.is_(None)),
)


class Delivery(Base):
    """A message to a subscription, written in the transaction of what it is about."""

    __tablename__ = "notification_deliveries"
    __table_args__ = (
        UniqueConstraint("subscription_id", "source"),
        Index(None, "subscription_id", "created_at", "id"),
        {"postgresql_with": {"fillfactor": 70}},
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    """Also the id of the message, the same for each try."""
    subscription_id: Mapped[str] = mapped_column(
        ForeignKey(
            "notification_subscriptions.id",
            name="fk_notification_deliveries_subscription",  # else longer than PostgreSQL allows
            ondelete="CASCADE",
        )
    )
    source: Mapped[str] = mapped_column(String(160))
    """What it is about; a subscription gets each message once."""
    type: Mapped[str] = mapped_column(String(40))
    body: Mapped[str] = mapped_column(Text)
    """The JSON document; text, since a signature covers its bytes."""
    state: Mapped[str] = mapped_column(String(16), default="pending")
    attempts: Mapped[int] = mapped_column(default=0)
    due_at: Mapped[datetime] = mapped_column(insert_default=now())
    claim: Mapped[str | None] = mapped_column(String(32))
    """The try in progress."""
    claimed_until: Mapped[datetime | None]
    """When another server may try it, if the one that has claimed it does not report."""
    attempted_at: Mapped[datetime | None]
    duration_s: Mapped[float | None]
    status_code: Mapped[int | None]
    error: Mapped[str | None] = mapped_column(Text)
    response: Mapped[str | None] = mapped_column(Text)
    """The start of the last response."""
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    finished_at: Mapped[datetime | None]


# A partial index: each server asks every second for what is due, and few deliveries are pending.
Index(
    "ix_notification_deliveries_due",
    Delivery.due_at,
    sqlite_where=Delivery.state == PENDING,
    postgresql_where=Delivery.state == PENDING,
)
