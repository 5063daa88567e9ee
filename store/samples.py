"""A range of a job's steps in few points, on whatever scale, read from the pyramids."""

from collections.abc import Iterator, Sequence
from typing import Final

from sqlalchemy import bindparam, func, select
from sqlalchemy.orm import Session

from ampcore.series import StepBlock
from ampcore.series.buckets import Buckets
from ampcore.series.codec import Keep, decode_buckets, every
from ampcore.series.pyramid import CHUNK, Part, downsampled
from store.database import BINARY
from store.steps import Stretch, blocks_of
from store.tables import StepLevel

_OWN: Final = (
    StepLevel.job_id == bindparam("job_id"),
    StepLevel.attempt == bindparam("attempt"),
)
_HEIGHTS: Final = (
    select(StepLevel.__table__.c.size, func.max(StepLevel.end_step))
    .where(*_OWN)
    .group_by(StepLevel.size)
)
_CHUNKS: Final = (
    select(StepLevel.__table__.c.payload)
    .where(*_OWN, StepLevel.size == bindparam("size"))
    .where(StepLevel.first_step >= bindparam("begin"), StepLevel.first_step < bindparam("end"))
    .order_by(StepLevel.first_step)
    .execution_options(**{BINARY: True})
)


def sample(
    session: Session,
    job_id: str,
    seen: Sequence[Stretch],
    most: int,
    columns: Sequence[str] | None = None,
) -> Buckets:
    """The steps of some stretches in at most `most` buckets; of `columns`, those that there are."""
    return downsampled(parts(session, job_id, seen, columns), most)


def parts(
    session: Session, job_id: str, seen: Sequence[Stretch], columns: Sequence[str] | None = None
) -> list[Part]:
    """Some stretches as parts of a series; of `columns`, those that there are."""
    keep = every if columns is None else set(columns).__contains__
    return [
        Part(StoredSeries(session, job_id, stretch.attempt, keep), stretch.start, stretch.end)
        for stretch in seen
        if stretch.start < stretch.end
    ]


class StoredSeries:
    """What is stored of the steps that one attempt made, and of their pyramid."""

    def __init__(self, session: Session, job_id: str, attempt: int, keep: Keep = every) -> None:
        self._session, self._job_id, self._attempt, self._keep = session, job_id, attempt, keep
        self._whose = {"job_id": job_id, "attempt": attempt}
        self._whole_until: dict[int, int] | None = None

    def whole_until(self, size: int) -> int:
        """The step behind the last stored bucket of a level; 0: there is none."""
        if self._whole_until is None:
            found = self._session.connection().execute(_HEIGHTS, self._whose)
            self._whole_until = {row[0]: row[1] for row in found}
        return self._whole_until.get(size, 0)

    def buckets(self, size: int, start: int, end: int) -> list[Buckets]:
        """The stored buckets of a level whose steps s all have `start` ≤ s < `end`, in order."""
        span = size * CHUNK
        asked = {**self._whose, "size": size, "begin": start // span * span, "end": end}
        payloads = self._session.connection().execute(_CHUNKS, asked).scalars()
        return [decode_buckets(each, self._keep).between(start, end) for each in payloads]

    def steps(self, start: int, end: int) -> Iterator[StepBlock]:
        """The steps s with `start` ≤ s < `end`, in order."""
        stretch = Stretch(self._attempt, start, end)
        return blocks_of(self._session, self._job_id, stretch, self._keep)
