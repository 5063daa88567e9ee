"""Downsample a range of a job's steps, with the stored downsampling levels of each attempt."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from sqlalchemy import bindparam, func, select
from sqlalchemy.orm import Session

from ampspec.telemetry import StepBlock
from ampspec.telemetry.steps import downsampling
from ampspec.telemetry.steps.buckets import Buckets
from ampspec.telemetry.steps.codec import ColumnFilter, decode_buckets, keep_all
from ampspec.telemetry.steps.downsampling import BUCKETS_PER_CHUNK, SeriesRange
from store.cancellation import checked
from store.database import BINARY_RESULTS
from store.tables import StepLevel
from store.telemetry.payloads import decoded
from store.telemetry.steps import AttemptSteps, FirstColumns, read_blocks

_OWN: Final = (
    StepLevel.job_id == bindparam("job_id"),
    StepLevel.attempt == bindparam("attempt"),
)
_LEVEL_ENDS: Final = (
    select(StepLevel.__table__.c.size, func.max(StepLevel.end_step))
    .where(*_OWN)
    .group_by(StepLevel.size)
)
_CHUNKS: Final = (
    select(StepLevel.__table__.c.payload)
    .where(*_OWN, StepLevel.size == bindparam("size"))
    .where(StepLevel.first_step >= bindparam("begin"), StepLevel.first_step < bindparam("end"))
    .order_by(StepLevel.first_step)
    .execution_options(**{BINARY_RESULTS: True})
)


def downsample(
    session: Session,
    job_id: str,
    ranges: Sequence[AttemptSteps],
    max_buckets: int,
    columns: Sequence[str] | None = None,
) -> Buckets:
    """The steps of the ranges in at most `max_buckets` buckets; unknown `columns` are left out."""
    return downsampling.downsample(stored_parts(session, job_id, ranges, columns), max_buckets)


def stored_parts(
    session: Session,
    job_id: str,
    ranges: Sequence[AttemptSteps],
    columns: Sequence[str] | None = None,
) -> list[SeriesRange]:
    """The ranges as parts of a series; unknown `columns` are left out.

    Without `columns`, they have the first `store.telemetry.steps.MAX_COLUMNS`.
    """
    keep = FirstColumns() if columns is None else set(columns).__contains__
    return [
        SeriesRange(
            StoredSeries(session, job_id, attempt_range.attempt, keep),
            attempt_range.start,
            attempt_range.end,
        )
        for attempt_range in ranges
        if attempt_range.start < attempt_range.end
    ]


class StoredSeries:
    """The stored steps and downsampling levels of one range of an attempt."""

    def __init__(
        self, session: Session, job_id: str, attempt: int, keep: ColumnFilter = keep_all
    ) -> None:
        self._session, self._job_id, self._attempt, self._keep = session, job_id, attempt, keep
        self._whose = {"job_id": job_id, "attempt": attempt}
        self._covered_until: dict[int, int] | None = None

    def covered_until(self, size: int) -> int:
        """The step after the last stored bucket of a level; 0 if there is none."""
        if self._covered_until is None:
            rows = self._session.connection().execute(_LEVEL_ENDS, self._whose)
            self._covered_until = {row[0]: row[1] for row in rows}
        return self._covered_until.get(size, 0)

    def buckets(self, size: int, start: int, end: int) -> list[Buckets]:
        """The stored buckets of a level whose steps s all have `start` ≤ s < `end`, in order."""
        span = size * BUCKETS_PER_CHUNK
        parameters = {**self._whose, "size": size, "begin": start // span * span, "end": end}
        payloads = checked(self._session.connection().execute(_CHUNKS, parameters).scalars())
        decode = partial(decode_buckets, keep=self._keep)
        chunks = decoded(payloads, decode, self._job_id, self._attempt)
        return [buckets.between(start, end) for buckets in chunks]

    def steps(self, start: int, end: int) -> Iterator[StepBlock]:
        """The steps s with `start` ≤ s < `end`, in order."""
        attempt_range = AttemptSteps(self._attempt, start, end)
        return read_blocks(self._session, self._job_id, attempt_range, self._keep)
