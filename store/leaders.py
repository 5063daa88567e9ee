"""Leaders: of several servers, one does a background task; another one if it stops."""

from typing import Final

from sqlalchemy import bindparam, delete, or_, select, update
from sqlalchemy.orm import Session

from store.clock import from_now, now, seconds_since
from store.database import Database
from store.rows import insert_if_absent
from store.tables import Leader

BACKGROUND: Final = "background"
"""The work of one server for all. Its reconciler renews the lease: if it hangs, another leads."""
LEADER_LEASE_S: Final = 5.0
"""Another server takes over when the leader has not completed a round for this long."""


# Built once: building a statement takes as long as executing it.
_LEADER: Final = select(
    Leader.server_id,
    seconds_since(now(), until=Leader.lease_expires_at).label("remaining_s"),
).where(Leader.task == bindparam("task"))


def lead(database: Database, task: str, server_id: str) -> bool:
    """Whether this server leads the task now; the lease of a leader is renewed.

    Most calls only read: a lease is renewed when half of it is over.
    """
    with database.autocommit() as connection:
        leader = connection.execute(_LEADER, {"task": task}).one_or_none()
    if leader is not None and leader.remaining_s > 0:
        if leader.server_id != server_id:
            return False
        if leader.remaining_s > LEADER_LEASE_S / 2:
            return True
    with database.write() as session:
        return _take(session, task, server_id)


def leads(database: Database, task: str, server_id: str) -> bool:
    """Whether this server leads the task now; the lease is not renewed."""
    with database.read() as session:
        statement = select(Leader.server_id).where(
            Leader.task == task, Leader.lease_expires_at > now()
        )
        return session.scalar(statement) == server_id


def resign(database: Database, task: str, server_id: str) -> None:
    """End the lease of this server, so that another one leads at once."""
    with database.write() as session:
        session.execute(delete(Leader).where(Leader.task == task, Leader.server_id == server_id))


def _take(session: Session, task: str, server_id: str) -> bool:
    """Take or renew the lease; False if another server was faster."""
    values = {"server_id": server_id, "lease_expires_at": from_now(LEADER_LEASE_S)}
    session.execute(insert_if_absent(session, Leader, task=task, **values))
    renewed = session.execute(
        update(Leader)
        .where(Leader.task == task)
        .where(or_(Leader.server_id == server_id, Leader.lease_expires_at < now()))
        .values(**values)
        .returning(Leader.task)
        .execution_options(synchronize_session=False)
    )
    return renewed.one_or_none() is not None
