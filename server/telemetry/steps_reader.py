"""Read the requested steps as tables of steps or buckets, with key steps and attempt ranges."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy.orm import Session

from ampspec.documents.problems import closest_match, format_value
from ampspec.jobs import Problem
from ampspec.telemetry import COLUMNS
from ampspec.telemetry.steps.buckets import SKIPPED
from ampspec.telemetry.steps.downsampling import EMPTY_BLOCK
from server.deps import job_not_found
from server.errors import RequestInvalid
from server.telemetry import step_table
from server.telemetry.step_table import StepTable
from server.telemetry.steps_query import StepsQuery
from store.database import Database
from store.jobs import jobs
from store.telemetry import steps
from store.telemetry.steps import AttemptSteps

if TYPE_CHECKING:
    from store.telemetry.key_steps import KeyStepsInRange

PAGE: Final = 65_536
"""Steps per table while all steps are streamed."""


@dataclass(frozen=True)
class StepsResult:
    """The result of a read.

    `ranges` are the attempts that readers see, and their steps; `found` are the key steps, None if
    every step is in the table.
    """

    table: StepTable
    steps_per_point: int
    last: int | None
    more: bool
    ranges: Sequence[AttemptSteps]
    found: "KeyStepsInRange | None" = None


def read_steps(session: Session, job_id: str, wanted: StepsQuery) -> StepsResult:
    """A page of steps, or the whole range downsampled. Raises RequestInvalid."""
    ranges = steps.visible_ranges(session, job_id, wanted.attempt)
    columns = ColumnSelection(session, job_id, wanted, ranges)
    if wanted.max_points is None:
        return _page(columns)
    if (
        sum(attempt_range.end - attempt_range.start for attempt_range in columns.inside)
        <= wanted.max_points
    ):
        return _every_step(columns)
    return _buckets(columns, wanted.max_points)


def all_tables(database: Database, job_id: str, wanted: StepsQuery) -> Iterator[StepTable]:
    """All requested steps in tables; no session is held between two of them.

    Raises NotFound if the job is deleted before the last one.
    """
    if wanted.max_points is not None:
        with database.read() as session:
            points = read_steps(session, job_id, wanted).table
        yield points
        return
    with database.read() as session:
        ranges = steps.visible_ranges(session, job_id, wanted.attempt)
        names = ColumnSelection(session, job_id, wanted, ranges).names()
    start, left, more = wanted.first, wanted.limit, True
    while more and left != 0:
        with database.read() as session:
            # A deleted job must not look like the end of its steps.
            if jobs.project_of(session, job_id) is None:
                raise job_not_found(job_id)
            found = steps.read(
                session,
                job_id,
                start=start,
                end=wanted.end,
                limit=PAGE if left is None else min(PAGE, left),
                attempt=wanted.attempt,
                columns=[*names, SKIPPED],
            )
        yield step_table.table_of_steps(found.block, names)
        start, more = found.block.end_step, found.more
        left = None if left is None else left - len(found.block)


class ColumnSelection:
    """The columns to return for a range."""

    def __init__(
        self, session: Session, job_id: str, wanted: StepsQuery, ranges: Sequence[AttemptSteps]
    ) -> None:
        self.session, self.job_id, self.wanted, self.ranges = session, job_id, wanted, ranges
        self.inside = steps.clip(ranges, wanted.first, wanted.end)
        self.kept = None if wanted.columns is None else [*wanted.columns, SKIPPED]
        """The columns to read; at least one, for the number of steps."""

    def names(self, found: Sequence[str] = ()) -> list[str]:
        """The requested columns, by default all. Raises RequestInvalid for an unknown one.

        Args:
            found: the columns that were read.
        """
        requested = self.wanted.columns
        if requested is not None and set(requested) <= {"step", *found}:
            return [name for name in dict.fromkeys(requested) if name != "step"]
        if requested is None and found:
            return list(found)
        known = steps.column_names(self.session, self.job_id, self.ranges) or list(COLUMNS)
        if requested is None:
            return known
        # Without steps yet, a named extra (`loss/generator`) may still appear later.
        later = [
            name for name in requested if not self.inside and name.partition("/")[0] in COLUMNS
        ]
        check_columns(requested, [*known, *later])
        return [name for name in dict.fromkeys(requested) if name in known]


def check_columns(requested: Sequence[str], known: Sequence[str]) -> None:
    """Raise RequestInvalid for unknown columns other than `step`."""
    unknown = [name for name in requested if name not in ("step", *known)]
    if unknown:
        raise RequestInvalid([_unknown(name, known) for name in unknown])


def _page(columns: ColumnSelection) -> StepsResult:
    wanted = columns.wanted
    found = steps.read(
        columns.session,
        columns.job_id,
        start=wanted.first,
        end=wanted.end,
        limit=wanted.limit or PAGE,
        attempt=wanted.attempt,
        columns=columns.kept,
    )
    block = found.block
    table = step_table.table_of_steps(block, columns.names(block.names if len(block) else ()))
    last = block.end_step - 1 if len(block) else wanted.after
    return StepsResult(table, 1, last, found.more, columns.ranges)


def _every_step(columns: ColumnSelection) -> StepsResult:
    """The steps themselves, if there are no more than the requested number of points."""
    session, job_id, names = columns.session, columns.job_id, columns.names()
    keep = steps.FirstColumns()
    blocks = [
        b
        for attempt_range in columns.inside
        for b in steps.read_blocks(session, job_id, attempt_range, keep)
    ]
    table = step_table.concat_tables(
        [step_table.table_of_steps(block, names) for block in (EMPTY_BLOCK, *blocks)]
    )
    last = blocks[-1].end_step - 1 if blocks else columns.wanted.after
    return StepsResult(table, 1, last, False, columns.ranges, _key_steps(columns))


def _buckets(columns: ColumnSelection, most: int) -> StepsResult:
    from store.telemetry.downsampling import downsample

    buckets = downsample(columns.session, columns.job_id, columns.inside, most, columns.kept)
    table = step_table.table_of_buckets(buckets, columns.names((*buckets.names, SKIPPED)))
    last = int(buckets.ends[-1]) - 1 if len(buckets) else columns.wanted.after
    return StepsResult(table, buckets.size, last, False, columns.ranges, _key_steps(columns))


def _key_steps(columns: ColumnSelection) -> "KeyStepsInRange":
    from store.telemetry import key_steps

    wanted = columns.wanted
    return key_steps.find(columns.session, columns.job_id, columns.ranges, wanted.first, wanted.end)


def _unknown(name: str, known: Sequence[str]) -> Problem:
    names = ["step", *known]
    expected = f"columns among {', '.join(names)}"
    suggestion = closest_match(name, names)
    return Problem("/query/columns", "unknown_column", expected, format_value(name), suggestion)
