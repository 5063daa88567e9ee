"""Read the requested steps as tables of steps or buckets, with key steps and attempt ranges."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy.orm import Session

from ampspec.documents.problems import closest_match, format_value
from ampspec.jobs import Problem
from ampspec.telemetry import COLUMN_DTYPES
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

    `ranges` are the attempts that readers see, and their steps; `key_steps` is None if every step
    is in the table.
    """

    table: StepTable
    steps_per_point: int
    last: int | None
    more: bool
    ranges: Sequence[AttemptSteps]
    key_steps: "KeyStepsInRange | None" = None


def read_steps(session: Session, job_id: str, query: StepsQuery) -> StepsResult:
    """A page of steps, or the whole range downsampled. Raises RequestInvalid."""
    ranges = steps.visible_ranges(session, job_id, query.attempt)
    columns = ColumnSelection(session, job_id, query, ranges)
    if query.max_points is None:
        return _page(columns)
    if (
        sum(attempt_range.end - attempt_range.start for attempt_range in columns.inside)
        <= query.max_points
    ):
        return _every_step(columns)
    return _buckets(columns, query.max_points)


def all_tables(database: Database, job_id: str, query: StepsQuery) -> Iterator[StepTable]:
    """All requested steps in tables; no session is held between two of them.

    Raises NotFound if the job is deleted before the last one.
    """
    if query.max_points is not None:
        with database.read() as session:
            points = read_steps(session, job_id, query).table
        yield points
        return
    with database.read() as session:
        ranges = steps.visible_ranges(session, job_id, query.attempt)
        names = ColumnSelection(session, job_id, query, ranges).names()
    start, remaining, more = query.first, query.limit, True
    while more and remaining != 0:
        with database.read() as session:
            # A deleted job must not look like the end of its steps.
            if jobs.project_of(session, job_id) is None:
                raise job_not_found(job_id)
            page = steps.read(
                session,
                job_id,
                start=start,
                end=query.end,
                limit=PAGE if remaining is None else min(PAGE, remaining),
                attempt=query.attempt,
                columns=[*names, SKIPPED],
            )
        yield step_table.table_of_steps(page.block, names)
        start, more = page.block.end_step, page.more
        remaining = None if remaining is None else remaining - len(page.block)


class ColumnSelection:
    """The columns to return for a range."""

    def __init__(
        self, session: Session, job_id: str, query: StepsQuery, ranges: Sequence[AttemptSteps]
    ) -> None:
        self.session, self.job_id, self.query, self.ranges = session, job_id, query, ranges
        self.inside = steps.clip(ranges, query.first, query.end)
        self.kept = None if query.columns is None else [*query.columns, SKIPPED]
        """The columns to read; at least one, for the number of steps."""

    def names(self, read_columns: Sequence[str] = ()) -> list[str]:
        """The requested columns, by default all. Raises RequestInvalid for an unknown one.

        Args:
            read_columns: the columns that were read.
        """
        requested = self.query.columns
        if requested is not None and set(requested) <= {"step", *read_columns}:
            return [name for name in dict.fromkeys(requested) if name != "step"]
        if requested is None and read_columns:
            return list(read_columns)
        stored_columns = steps.column_names(self.session, self.job_id, self.ranges)
        if not stored_columns:
            stored_columns = list(COLUMN_DTYPES)
        if requested is None:
            return stored_columns
        # Without steps yet, a named extra (`loss/generator`) may still appear later.
        later = [
            name
            for name in requested
            if not self.inside and name.partition("/")[0] in COLUMN_DTYPES
        ]
        check_columns(requested, [*stored_columns, *later])
        return [name for name in dict.fromkeys(requested) if name in stored_columns]


def check_columns(requested: Sequence[str], stored_columns: Sequence[str]) -> None:
    """Raise RequestInvalid for unknown columns other than `step`."""
    unknown = [name for name in requested if name not in ("step", *stored_columns)]
    if unknown:
        raise RequestInvalid([_unknown(name, stored_columns) for name in unknown])


def _page(columns: ColumnSelection) -> StepsResult:
    query = columns.query
    page = steps.read(
        columns.session,
        columns.job_id,
        start=query.first,
        end=query.end,
        limit=query.limit or PAGE,
        attempt=query.attempt,
        columns=columns.kept,
    )
    block = page.block
    table = step_table.table_of_steps(block, columns.names(block.names if len(block) else ()))
    last = block.end_step - 1 if len(block) else query.after_step
    return StepsResult(table, 1, last, page.more, columns.ranges)


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
    last = blocks[-1].end_step - 1 if blocks else columns.query.after_step
    return StepsResult(table, 1, last, False, columns.ranges, _key_steps(columns))


def _buckets(columns: ColumnSelection, max_points: int) -> StepsResult:
    from store.telemetry.downsampling import downsample

    buckets = downsample(columns.session, columns.job_id, columns.inside, max_points, columns.kept)
    table = step_table.table_of_buckets(buckets, columns.names((*buckets.names, SKIPPED)))
    last = int(buckets.ends[-1]) - 1 if len(buckets) else columns.query.after_step
    return StepsResult(table, buckets.size, last, False, columns.ranges, _key_steps(columns))


def _key_steps(columns: ColumnSelection) -> "KeyStepsInRange":
    from store.telemetry import key_steps

    query = columns.query
    return key_steps.find(columns.session, columns.job_id, columns.ranges, query.first, query.end)


def _unknown(name: str, stored_columns: Sequence[str]) -> Problem:
    names = ["step", *stored_columns]
    expected = f"columns among {', '.join(names)}"
    suggestion = closest_match(name, names)
    return Problem("/query/columns", "unknown_column", expected, format_value(name), suggestion)
