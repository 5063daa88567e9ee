"""Some rows of a job's story in order: the first of them, or the last ones before a place."""

from collections.abc import Sequence
from typing import TypeVar

from sqlalchemy import Select
from sqlalchemy.orm import InstrumentedAttribute, Session

Row = TypeVar("Row")


def in_order(
    session: Session,
    statement: Select[Row],
    seq: InstrumentedAttribute[int],
    *,
    before: int | None,
    limit: int,
) -> Sequence[Row]:
    """At most `limit` rows by rising seq; with `before` the last ones that lie below it."""
    if before is None:
        return session.scalars(statement.order_by(seq).limit(limit)).all()
    statement = statement.where(seq < before).order_by(seq.desc()).limit(limit)
    return session.scalars(statement).all()[::-1]
