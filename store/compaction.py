"""Merge the small blocks in which steps come into large ones, and raise the pyramid over them.

Safe at any moment, and in several servers: what is read is computed on outside of a transaction,
and written only if all of it still stands as it was read.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import numpy as np
from sqlalchemy import delete, or_, select
from sqlalchemy.orm import Session

from ampcore.series import StepBlock
from ampcore.series.block import Facts
from ampcore.series.buckets import Buckets
from ampcore.series.codec import (
    decode,
    decode_buckets,
    encode,
    encode_buckets,
)
from ampcore.series.marks import Marks, marks_of, pack_marks, unpack_marks
from ampcore.series.points import Points, Scales, is_loss_scale, pack_points, unpack_points
from ampcore.series.pyramid import LEVELS, grown, whole_until
from store.loose import SEGMENT, Loose
from store.rows import write_down
from store.steps import Stretch, blocks_of
from store.tables import Base, Job, StepBlockRow, StepLevel, StepPoints

MOST: Final = 1024
MOST_STEPS: Final = 262_144
"""Blocks merged at one time, and the steps in them."""


class Outdated(Exception):
    """Another server has merged the blocks meanwhile, or the job is gone."""


@dataclass(frozen=True)
class Piece:
    """A stored block, and the marks of the blocks that it was merged of."""

    row: StepBlockRow
    block: StepBlock
    marks: Marks


@dataclass(frozen=True)
class Tail:
    """The end of an attempt's steps, and of its pyramid, as they are stored.

    `behind` holds the steps before the first piece that the first level has no bucket of yet.
    """

    whose: Loose
    pieces: Sequence[Piece]
    behind: Sequence[StepBlock]
    levels: Mapping[int, Buckets]
    points: Points | None


@dataclass(frozen=True)
class Merged:
    """What is to stand in the place of a tail."""

    tail: Tail
    blocks: Sequence[dict[str, Any]]
    levels: Mapping[int, Sequence[dict[str, Any]]]
    points: Sequence[dict[str, Any]]


def read(session: Session, whose: Loose) -> Tail:
    """What there is to merge of an attempt; it may have no pieces by now."""
    own = (StepBlockRow.job_id == whose.job_id, StepBlockRow.attempt == whose.attempt)
    pieces = [*_unfinished(session, own), *_loose(session, own)]
    levels = {
        size: decode_buckets(payload)
        for size in LEVELS
        if (payload := session.scalar(_last_of(StepLevel, whose, StepLevel.size == size)))
    }
    points = session.scalar(_last_of(StepPoints, whose))
    begin = whole_until(levels.get(LEVELS[0]))
    first = pieces[0].first_step if pieces else begin
    behind = blocks_of(session, whose.job_id, Stretch(whose.attempt, begin, first))
    return Tail(
        whose,
        [_piece(row) for row in pieces],
        list(behind) if begin < first else [],
        levels,
        unpack_points(points) if points else None,
    )


def merge(tail: Tail) -> Merged:
    """Merge what was read; takes nothing from the database."""
    segments = groupby(tail.pieces, key=lambda piece: piece.row.first_step // SEGMENT)
    runs = [run for _, segment in segments for run in _runs(list(segment))]
    blocks = [*tail.behind, *(StepBlock.concat([piece.block for piece in run]) for run in runs)]
    made = grown(tail.levels, blocks)
    return Merged(
        tail,
        [
            _merged_row(run, block)
            for run, block in zip(runs, blocks[len(tail.behind) :], strict=True)
        ],
        {size: [_level_row(chunk) for chunk in chunks] for size, chunks in made.items()},
        list(_point_rows(tail, blocks, made.get(LEVELS[0], []))),
    )


def write(session: Session, merged: Merged) -> None:
    """Put the merged blocks in the place of the others. Raises Outdated."""
    tail = merged.tail
    rows = [piece.row for piece in tail.pieces]
    own = {"job_id": tail.whose.job_id, "attempt": tail.whose.attempt}
    # First the job, as who deletes it does: in another order both would wait for one another.
    standing = select(Job.id).where(Job.id == own["job_id"])
    if session.scalar(standing.with_for_update(read=True, key_share=True)) is None:
        raise Outdated
    merged_before = [row.first_step for row in rows if row.marks is not None]
    gone = _delete(
        session,
        StepBlockRow,
        own,
        StepBlockRow.first_step.between(rows[0].first_step, rows[-1].first_step),
        StepBlockRow.seq <= rows[-1].seq,
        or_(StepBlockRow.marks.is_(None), StepBlockRow.first_step.in_(merged_before)),
    )
    if gone != len(rows):
        raise Outdated
    write_down(session, StepBlockRow, *(own | row for row in merged.blocks))
    for size, chunks in merged.levels.items():
        from_here = StepLevel.first_step >= chunks[0]["first_step"]
        _delete(session, StepLevel, own, StepLevel.size == size, from_here)
        write_down(session, StepLevel, *(own | {"size": size} | chunk for chunk in chunks))
    if merged.points:
        _delete(session, StepPoints, own, StepPoints.first_step >= merged.points[0]["first_step"])
        write_down(session, StepPoints, *(own | row for row in merged.points))


def _unfinished(session: Session, own: Sequence[Any]) -> list[StepBlockRow]:
    """The last merged block, if further steps belong into it."""
    merged = select(StepBlockRow).where(*own, StepBlockRow.marks.is_not(None))
    last = session.scalars(merged.order_by(StepBlockRow.first_step.desc()).limit(1)).one_or_none()
    is_full = last is None or last.end_step // SEGMENT > last.first_step // SEGMENT
    return [] if last is None or is_full else [last]


def _loose(session: Session, own: Sequence[Any]) -> Iterator[StepBlockRow]:
    """The first of the blocks that are as they came."""
    loose = select(StepBlockRow).where(*own, StepBlockRow.marks.is_(None))
    steps = 0
    for row in session.scalars(loose.order_by(StepBlockRow.first_step).limit(MOST)):
        if steps >= MOST_STEPS:
            break
        steps += row.end_step - row.first_step
        yield row


def _piece(row: StepBlockRow) -> Piece:
    if row.marks is not None:
        return Piece(row, decode(row.payload), unpack_marks(row.marks))
    facts = Facts(row.skipped, row.examples, row.duration_s, row.skipped_s, row.best_loss)
    return Piece(row, decode(row.payload), marks_of([(row.seq, row.end_step, facts)]))


def _runs(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Pieces that follow on one another without a gap."""
    run: list[Piece] = []
    for piece in pieces:
        if run and run[-1].row.end_step != piece.row.first_step:
            yield run
            run = []
        run.append(piece)
    yield run


def _merged_row(run: Sequence[Piece], block: StepBlock) -> dict[str, Any]:
    marks = np.concatenate([piece.marks for piece in run])
    best = [piece.row.best_loss for piece in run if piece.row.best_loss is not None]
    return {
        "first_step": block.first_step,
        "end_step": block.end_step,
        "skipped": sum(piece.row.skipped for piece in run),
        "examples": sum(piece.row.examples for piece in run),
        "duration_s": sum(piece.row.duration_s for piece in run),
        "skipped_s": sum(piece.row.skipped_s for piece in run),
        "best_loss": min(best, default=None),
        "seq": run[-1].row.seq,
        "created_at": run[-1].row.created_at,
        "marks": pack_marks(marks),
        "payload": encode(block),
    }


def _level_row(chunk: Buckets) -> dict[str, Any]:
    return {
        "first_step": int(chunk.starts[0]),
        "end_step": whole_until(chunk),
        "payload": encode_buckets(chunk),
    }


def _point_rows(
    tail: Tail, blocks: Sequence[StepBlock], chunks: Sequence[Buckets]
) -> Iterator[dict[str, Any]]:
    """The points of those chunks of the first level that were made or changed."""
    if not chunks:
        return
    known = tail.levels.get(LEVELS[0])
    begin = whole_until(known)
    before = _scales(known) if known is not None else Scales.unknown()
    found = [] if tail.points is None else [tail.points]
    for block in blocks:
        fresh = block.between(begin, whole_until(chunks[-1]))
        if len(fresh):
            found.append(Points.of(fresh, before))
            before = Scales.of(fresh)
    points = Points.concat(found)
    for chunk in chunks:
        first, end = int(chunk.starts[0]), whole_until(chunk)
        of_chunk = points.between(first, end)
        yield {
            "first_step": first,
            "end_step": end,
            "skipped": len(of_chunk.skipped),
            "changes": len(of_chunk.changes),
            "payload": pack_points(of_chunk),
        }


def _scales(buckets: Buckets) -> Scales:
    names = [name for name in buckets.names if is_loss_scale(name)]
    values = {name: float(buckets[name].last[-1]) for name in names}
    return Scales(int(buckets.ends[-1]), values)


def _last_of(table: type[StepLevel | StepPoints], whose: Loose, *where: Any) -> Any:
    own = (table.job_id == whose.job_id, table.attempt == whose.attempt)
    return select(table.payload).where(*own, *where).order_by(table.first_step.desc()).limit(1)


def _delete(session: Session, table: type[Base], own: Mapping[str, Any], *where: Any) -> int:
    statement = delete(table).filter_by(**own).where(*where)
    options = {"synchronize_session": False}
    result: Any = session.execute(statement, execution_options=options)
    return int(result.rowcount)
