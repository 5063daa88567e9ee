"""Read what a request asks for: tables of steps or of buckets, and what comes along with them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy.orm import Session

from ampcore.series import COLUMNS
from ampcore.series.buckets import SKIPPED
from ampcore.series.pyramid import NO_STEPS
from ampcore.spec import Problem
from ampcore.spec.problems import closest, shown
from server.deps import no_job
from server.http.parameters import RequestInvalid
from server.telemetry import tables
from server.telemetry.tables import Table
from server.telemetry.wanted import Wanted
from store import jobs, steps
from store.database import Database
from store.steps import Stretch

if TYPE_CHECKING:
    from store.points import Found

PAGE: Final = 65_536
"""Steps in memory at one time while all of them are sent."""


@dataclass(frozen=True)
class Reading:
    """What was found.

    `seen` are the attempts that readers see, and where; `found` is None where every step is told.
    """

    table: Table
    steps_per_point: int
    last: int | None
    more: bool
    seen: Sequence[Stretch]
    found: "Found | None" = None


def read(session: Session, job_id: str, wanted: Wanted) -> Reading:
    """A page of steps, or all of the range in few points. Raises RequestInvalid."""
    seen = steps.stretches(session, job_id, wanted.attempt)
    columns = Columns(session, job_id, wanted, seen)
    if wanted.max_points is None:
        return _page(columns)
    if sum(stretch.end - stretch.start for stretch in columns.inside) <= wanted.max_points:
        return _every_step(columns)
    return _buckets(columns, wanted.max_points)


def every_table(database: Database, job_id: str, wanted: Wanted) -> Iterator[Table]:
    """All that is asked for, in tables; nothing of the database is held between two of them.

    Raises NotFound when the job is deleted before the last one.
    """
    if wanted.max_points is not None:
        with database.read() as session:
            points = read(session, job_id, wanted).table
        yield points
        return
    with database.read() as session:
        seen = steps.stretches(session, job_id, wanted.attempt)
        names = Columns(session, job_id, wanted, seen).names()
    start, left, more = wanted.first, wanted.limit, True
    while more and left != 0:
        with database.read() as session:
            # What is left when a job is gone must not look like the end of its steps.
            if jobs.project_of(session, job_id) is None:
                raise no_job(job_id)
            found = steps.read(
                session,
                job_id,
                start=start,
                end=wanted.end,
                limit=PAGE if left is None else min(PAGE, left),
                attempt=wanted.attempt,
                columns=[*names, SKIPPED],
            )
        yield tables.of_steps(found.block, names)
        start, more = found.block.end_step, found.more
        left = None if left is None else left - len(found.block)


class Columns:
    """Which columns of a range are told."""

    def __init__(
        self, session: Session, job_id: str, wanted: Wanted, seen: Sequence[Stretch]
    ) -> None:
        self.session, self.job_id, self.wanted, self.seen = session, job_id, wanted, seen
        self.inside = steps.clipped(seen, wanted.first, wanted.end)
        self.kept = None if wanted.columns is None else [*wanted.columns, SKIPPED]
        """What is read; something must say how many steps there are."""

    def names(self, found: Sequence[str] = ()) -> list[str]:
        """Those asked for; all, where none is. Raises RequestInvalid for one that no step has.

        Args:
            found: Of the columns, those that were read.
        """
        asked = self.wanted.columns
        if asked is not None and set(asked) <= {"step", *found}:
            return [name for name in dict.fromkeys(asked) if name != "step"]
        if asked is None and found:
            return list(found)
        known = steps.columns(self.session, self.job_id, self.seen) or list(COLUMNS)
        if asked is None:
            return known
        # A named extra (`loss/generator`) may come later, when there are no steps yet.
        later = [name for name in asked if not self.inside and name.partition("/")[0] in COLUMNS]
        refuse_unknown(asked, [*known, *later])
        return [name for name in dict.fromkeys(asked) if name in known]


def refuse_unknown(asked: Sequence[str], known: Sequence[str]) -> None:
    """Raises RequestInvalid for columns beside `step` that are not known."""
    unknown = [name for name in asked if name not in ("step", *known)]
    if unknown:
        raise RequestInvalid([_unknown(name, known) for name in unknown])


def _page(columns: Columns) -> Reading:
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
    table = tables.of_steps(block, columns.names(block.names if len(block) else ()))
    last = block.end_step - 1 if len(block) else wanted.after
    return Reading(table, 1, last, found.more, columns.seen)


def _every_step(columns: Columns) -> Reading:
    """Steps that are as few as the points that there may be."""
    session, job_id, names = columns.session, columns.job_id, columns.names()
    blocks = [b for each in columns.inside for b in steps.blocks_of(session, job_id, each)]
    table = tables.joined([tables.of_steps(block, names) for block in (NO_STEPS, *blocks)])
    last = blocks[-1].end_step - 1 if blocks else columns.wanted.after
    return Reading(table, 1, last, False, columns.seen, _found(columns))


def _buckets(columns: Columns, most: int) -> Reading:
    from store.samples import sample  # loads pyarrow, which starting the server shall not wait for

    buckets = sample(columns.session, columns.job_id, columns.inside, most, columns.kept)
    table = tables.of_buckets(buckets, columns.names((*buckets.names, SKIPPED)))
    last = int(buckets.ends[-1]) - 1 if len(buckets) else columns.wanted.after
    return Reading(table, buckets.size, last, False, columns.seen, _found(columns))


def _found(columns: Columns) -> "Found":
    from store import points  # as above

    wanted = columns.wanted
    return points.find(columns.session, columns.job_id, columns.seen, wanted.first, wanted.end)


def _unknown(name: str, known: Sequence[str]) -> Problem:
    names = ["step", *known]
    expected = f"columns among {', '.join(names)}"
    suggestion = closest(name, names)
    return Problem("/query/columns", "unknown_column", expected, shown(name), suggestion)
