"""Read what a request asks for: tables of steps or of buckets, and what comes along with them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy.orm import Session

from ampcore.series import COLUMNS
from ampcore.spec import Problem
from ampcore.spec.problems import closest, shown
from server.http.parameters import RequestInvalid
from server.telemetry import tables
from server.telemetry.tables import Table
from server.telemetry.wanted import Wanted
from store import steps
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
    inside = steps.clipped(seen, wanted.first, wanted.end)
    names = _names(wanted, steps.columns(session, job_id, inside) if inside else None)
    if wanted.max_points is None:
        return _page(session, job_id, wanted, seen, names)
    return _points(session, job_id, wanted, seen, names)


def every_table(database: Database, job_id: str, wanted: Wanted) -> Iterator[Table]:
    """All that is asked for, in tables; nothing of the database is held between two of them."""
    if wanted.max_points is not None:
        with database.read() as session:
            yield read(session, job_id, wanted).table
        return
    with database.read() as session:
        seen = steps.stretches(session, job_id, wanted.attempt)
        inside = steps.clipped(seen, wanted.first, wanted.end)
        names = _names(wanted, steps.columns(session, job_id, inside) if inside else None)
    start, left, more = wanted.first, wanted.limit, True
    while more and left != 0:
        with database.read() as session:
            found = steps.read(
                session,
                job_id,
                start=start,
                end=wanted.end,
                limit=PAGE if left is None else min(PAGE, left),
                attempt=wanted.attempt,
                columns=[*names, "skipped"],
            )
        yield tables.of_steps(found.block, names)
        start, more = found.block.end_step, found.more
        left = None if left is None else left - len(found.block)


def _page(
    session: Session, job_id: str, wanted: Wanted, seen: Sequence[Stretch], names: Sequence[str]
) -> Reading:
    found = steps.read(
        session,
        job_id,
        start=wanted.first,
        end=wanted.end,
        limit=wanted.limit or PAGE,
        attempt=wanted.attempt,
        columns=[*names, "skipped"],
    )
    last = found.block.end_step - 1 if len(found.block) else wanted.after
    return Reading(tables.of_steps(found.block, names), 1, last, found.more, seen)


def _points(
    session: Session, job_id: str, wanted: Wanted, seen: Sequence[Stretch], names: Sequence[str]
) -> Reading:
    from store import points, samples  # they load pyarrow, which the start shall not wait for

    inside = steps.clipped(seen, wanted.first, wanted.end)
    found = points.find(session, job_id, seen, wanted.first, wanted.end)
    most = wanted.max_points or PAGE
    if sum(stretch.end - stretch.start for stretch in inside) <= most:
        blocks = [
            tables.of_steps(block, names)
            for stretch in inside
            for block in steps.blocks_of(session, job_id, stretch)
        ]
        nothing = steps.read(session, job_id, start=0, end=0, limit=1).block
        table = tables.joined([tables.of_steps(nothing, names), *blocks])
        last = int(table["step"][-1]) if len(table["step"]) else wanted.after
        return Reading(table, 1, last, False, seen, found)
    buckets = samples.sample(session, job_id, inside, most, names)
    last = int(buckets.ends[-1]) - 1
    table = tables.of_buckets(buckets, names)
    return Reading(table, buckets.size, last, False, seen, found)


def _names(wanted: Wanted, there_are: Sequence[str] | None) -> list[str]:
    """The columns to tell of; `there_are` is None where there is no step yet.

    Raises RequestInvalid for a name that no step carries.
    """
    known = list(COLUMNS if there_are is None else there_are)
    if wanted.columns is None:
        return known
    # A named extra (`loss/generator`) may come later, when there are no steps yet.
    later = [n for n in wanted.columns if there_are is None and n.partition("/")[0] in COLUMNS]
    unknown = [name for name in wanted.columns if name not in ("step", *known, *later)]
    if unknown:
        raise RequestInvalid([_unknown(name, known) for name in unknown])
    return [name for name in dict.fromkeys(wanted.columns) if name in known]


def _unknown(name: str, known: Sequence[str]) -> Problem:
    names = ["step", *known]
    expected = f"columns among {', '.join(names)}"
    suggestion = closest(name, names)
    return Problem("/query/columns", "unknown_column", expected, shown(name), suggestion)
