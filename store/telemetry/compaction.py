"""Merge small step blocks into large ones, and extend the downsampling levels over them.

`read_uncompacted`, `merge_steps`, `write_merged`: the merge runs outside a transaction, and is
written only if the rows have not changed since they were read, so several servers may do it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, Final

import numpy as np
from sqlalchemy import delete, or_, select
from sqlalchemy.orm import Session

from ampspec.telemetry import StepBlock
from ampspec.telemetry.steps.block import BlockStats
from ampspec.telemetry.steps.buckets import Buckets
from ampspec.telemetry.steps.codec import decode, decode_buckets, encode, encode_buckets
from ampspec.telemetry.steps.downsampling import LEVELS, covered_until, extend_levels
from ampspec.telemetry.steps.key_steps import (
    KeySteps,
    LastLossScales,
    decode_key_steps,
    encode_key_steps,
    is_loss_scale,
)
from ampspec.telemetry.steps.merge_index import (
    MergeIndex,
    build_merge_index,
    decode_merge_index,
    encode_merge_index,
)
from store.rows import insert_rows
from store.tables import Base, Job, StepBlockRow, StepLevel, StepPoints
from store.telemetry.compaction_queue import SEGMENT_STEPS, UncompactedAttempt
from store.telemetry.steps import AttemptSteps, read_blocks

MAX_BLOCKS: Final = 1024
MAX_STEPS: Final = 262_144
"""The maximum number of blocks merged in one transaction, and of steps in them."""


class StaleRead(Exception):
    """Another server has merged the blocks since they were read, or the job is deleted."""


@dataclass(frozen=True)
class StoredBlock:
    """A stored block, with the merge index of the blocks that it was merged from."""

    row: StepBlockRow
    block: StepBlock
    merge_index: MergeIndex


@dataclass(frozen=True)
class UncompactedSteps:
    """The last blocks of an attempt, and the end of each of its downsampling levels, as stored.

    `pieces` are the blocks to merge. `preceding` are the steps before them that are in no bucket
    of the first level yet.
    """

    uncompacted: UncompactedAttempt
    pieces: Sequence[StoredBlock]
    preceding: Sequence[StepBlock]
    levels: Mapping[int, Buckets]
    points: KeySteps | None


@dataclass(frozen=True)
class MergedSteps:
    """The rows that replace the rows of `tail`."""

    tail: UncompactedSteps
    blocks: Sequence[dict[str, Any]]
    levels: Mapping[int, Sequence[dict[str, Any]]]
    points: Sequence[dict[str, Any]]


def read_uncompacted(session: Session, uncompacted: UncompactedAttempt) -> UncompactedSteps:
    """Read the blocks to merge of an attempt; `pieces` is empty if another server merged them."""
    of_attempt = (
        StepBlockRow.job_id == uncompacted.job_id,
        StepBlockRow.attempt == uncompacted.attempt,
    )
    pieces = [*_unfinished_segment(session, of_attempt), *_uncompacted_rows(session, of_attempt)]
    levels = {
        size: decode_buckets(payload)
        for size in LEVELS
        if (
            payload := session.scalar(_last_payload(StepLevel, uncompacted, StepLevel.size == size))
        )
    }
    points = session.scalar(_last_payload(StepPoints, uncompacted))
    begin = covered_until(levels.get(LEVELS[0]))
    first = pieces[0].first_step if pieces else begin
    preceding = read_blocks(
        session, uncompacted.job_id, AttemptSteps(uncompacted.attempt, begin, first)
    )
    return UncompactedSteps(
        uncompacted,
        [_stored_block(row) for row in pieces],
        list(preceding) if begin < first else [],
        levels,
        decode_key_steps(points) if points else None,
    )


def merge_steps(tail: UncompactedSteps) -> MergedSteps:
    """Merge what was read, without access to the database.

    Raises ValueError for blocks that overlap.
    """
    for earlier, later in pairwise(tail.pieces):
        if earlier.row.end_step > later.row.first_step:
            raise ValueError(
                f"expected a block from step {earlier.row.end_step} on, "
                f"received one from {later.row.first_step}"
            )
    segments = groupby(tail.pieces, key=lambda piece: piece.row.first_step // SEGMENT_STEPS)
    runs = [list(segment) for _, segment in segments]
    blocks = [*tail.preceding, *(StepBlock.concat([piece.block for piece in run]) for run in runs)]
    new_chunks = extend_levels(tail.levels, blocks)
    return MergedSteps(
        tail,
        [
            _merged_row(run, block)
            for run, block in zip(runs, blocks[len(tail.preceding) :], strict=True)
        ],
        {size: [_level_row(chunk) for chunk in chunks] for size, chunks in new_chunks.items()},
        list(_point_rows(tail, blocks, new_chunks.get(LEVELS[0], []))),
    )


def write_merged(session: Session, merged: MergedSteps) -> None:
    """Replace the rows that were read by the merged ones. Raises StaleRead."""
    tail = merged.tail
    rows = [piece.row for piece in tail.pieces]
    attempt_key = {"job_id": tail.uncompacted.job_id, "attempt": tail.uncompacted.attempt}
    # Lock the job first, as deleting a job does: another order would deadlock.
    job = select(Job.id).where(Job.id == attempt_key["job_id"])
    if session.scalar(job.with_for_update(read=True, key_share=True)) is None:
        raise StaleRead
    merged_before = [row.first_step for row in rows if row.merge_index is not None]
    deleted_rows = _delete(
        session,
        StepBlockRow,
        attempt_key,
        StepBlockRow.first_step.between(rows[0].first_step, rows[-1].first_step),
        StepBlockRow.seq <= rows[-1].seq,
        or_(StepBlockRow.merge_index.is_(None), StepBlockRow.first_step.in_(merged_before)),
    )
    if deleted_rows != len(rows):
        raise StaleRead
    insert_rows(session, StepBlockRow, *(attempt_key | row for row in merged.blocks))
    for size, chunks in merged.levels.items():
        from_here = StepLevel.first_step >= chunks[0]["first_step"]
        _delete(session, StepLevel, attempt_key, StepLevel.size == size, from_here)
        insert_rows(session, StepLevel, *(attempt_key | {"size": size} | chunk for chunk in chunks))
    if merged.points:
        _delete(
            session,
            StepPoints,
            attempt_key,
            StepPoints.first_step >= merged.points[0]["first_step"],
        )
        insert_rows(session, StepPoints, *(attempt_key | row for row in merged.points))


def _unfinished_segment(session: Session, of_attempt: Sequence[Any]) -> list[StepBlockRow]:
    """The last merged block, if its segment is not full yet."""
    merged_blocks = select(StepBlockRow).where(*of_attempt, StepBlockRow.merge_index.is_not(None))
    last = session.scalars(
        merged_blocks.order_by(StepBlockRow.first_step.desc()).limit(1)
    ).one_or_none()
    is_full = last is None or last.end_step // SEGMENT_STEPS > last.first_step // SEGMENT_STEPS
    return [] if last is None or is_full else [last]


def _uncompacted_rows(session: Session, of_attempt: Sequence[Any]) -> Iterator[StepBlockRow]:
    """The first blocks that are not merged yet."""
    unmerged_blocks = select(StepBlockRow).where(*of_attempt, StepBlockRow.merge_index.is_(None))
    steps = 0
    for row in session.scalars(unmerged_blocks.order_by(StepBlockRow.first_step).limit(MAX_BLOCKS)):
        if steps >= MAX_STEPS:
            break
        steps += row.end_step - row.first_step
        yield row


def _stored_block(row: StepBlockRow) -> StoredBlock:
    if row.merge_index is not None:
        return StoredBlock(row, decode(row.payload), decode_merge_index(row.merge_index))
    stats = BlockStats(row.skipped, row.examples, row.duration_s, row.skipped_s, row.best_loss)
    return StoredBlock(
        row, decode(row.payload), build_merge_index([(row.seq, row.end_step, stats)])
    )


def _merged_row(run: Sequence[StoredBlock], block: StepBlock) -> dict[str, Any]:
    merge_index = np.concatenate([piece.merge_index for piece in run])
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
        "merge_index": encode_merge_index(merge_index),
        "payload": encode(block),
    }


def _level_row(chunk: Buckets) -> dict[str, Any]:
    return {
        "first_step": int(chunk.starts[0]),
        "end_step": covered_until(chunk),
        "payload": encode_buckets(chunk),
    }


def _point_rows(
    tail: UncompactedSteps, blocks: Sequence[StepBlock], chunks: Sequence[Buckets]
) -> Iterator[dict[str, Any]]:
    """The key steps of those chunks of the first level that are new or changed."""
    if not chunks:
        return
    first_level = tail.levels.get(LEVELS[0])
    begin = covered_until(first_level)
    scales = _last_scales(first_level) if first_level is not None else LastLossScales.unknown()
    key_steps = [] if tail.points is None else [tail.points]
    for block in blocks:
        new_steps = block.between(begin, covered_until(chunks[-1]))
        if len(new_steps):
            key_steps.append(KeySteps.of(new_steps, scales))
            scales = LastLossScales.of(new_steps)
    points = KeySteps.concat(key_steps)
    for chunk in chunks:
        first, end = int(chunk.starts[0]), covered_until(chunk)
        of_chunk = points.between(first, end)
        yield {
            "first_step": first,
            "end_step": end,
            "skipped": len(of_chunk.skipped),
            "changes": len(of_chunk.changes),
            "payload": encode_key_steps(of_chunk),
        }


def _last_scales(buckets: Buckets) -> LastLossScales:
    names = [name for name in buckets.names if is_loss_scale(name)]
    values = {name: float(buckets[name].last[-1]) for name in names}
    return LastLossScales(int(buckets.ends[-1]), values)


def _last_payload(
    table: type[StepLevel | StepPoints], uncompacted: UncompactedAttempt, *where: Any
) -> Any:
    of_attempt = (table.job_id == uncompacted.job_id, table.attempt == uncompacted.attempt)
    return (
        select(table.payload).where(*of_attempt, *where).order_by(table.first_step.desc()).limit(1)
    )


def _delete(
    session: Session, table: type[Base], attempt_key: Mapping[str, Any], *where: Any
) -> int:
    statement = delete(table).filter_by(**attempt_key).where(*where)
    options = {"synchronize_session": False}
    result: Any = session.execute(statement, execution_options=options)
    return int(result.rowcount)
