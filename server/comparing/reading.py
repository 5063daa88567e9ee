"""Read what a comparison tells, and write it down as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy.orm import Session

from ampcore.series.jsonable import finite_json
from server.comparing.asked import Asked
from server.comparing.differences import differences
from server.comparing.views import Difference, Result
from server.deps import no_job
from server.http.etag import etag_of
from server.http.responses import dumps
from server.telemetry.documents import skipped_json
from server.telemetry.reading import refuse_unknown
from server.telemetry.text import json_columns
from server.views import Job
from store import jobs, steps

if TYPE_CHECKING:
    from server.comparing.curves import Curve

RESULTS: Final = (
    "steps",
    "skipped_share",
    "last_loss",
    "best_loss",
    "final_loss",
    "val_loss",
    "val_accuracy",
    "median_examples_per_s",
    "steps_s",
    "peak_memory_bytes",
)
"""What is told of each job's summary."""


@dataclass(frozen=True)
class Compared:
    """What was found of one job."""

    job: Job
    speedup: float | None
    loss_drift: float | None
    curve: "Curve"


def views_of(session: Session, asked: Asked, sees: str | None) -> list[Job]:
    """The jobs in the order asked for. Raises NotFound for one that is not seen."""
    rows = {row.id: row for row in jobs.glance(session.connection(), asked.jobs)}
    for job_id in asked.jobs:
        if job_id not in rows or sees not in (None, rows[job_id].project):
            raise no_job(job_id)
    return [Job.of(rows[job_id]) for job_id in asked.jobs]


def etag(session: Session, asked: Asked, found: Sequence[Job]) -> str:
    """The tag of the comparison: it changes with any of the jobs."""
    seqs = [jobs.project_and_seq(session, job.id) for job in found]
    return etag_of(asked, seqs, [job.updated_at for job in found])


def compare(session: Session, asked: Asked, found: Sequence[Job]) -> Iterator[bytes]:
    """The jobs side by side. Raises RequestInvalid for a column that none of them has."""
    from server.comparing import curves  # loads pyarrow, which a start shall not wait for

    tracks = [curves.track(session, job.id) for job in found]
    if asked.columns is not None and any(each.seen for each in tracks):
        known = [name for each in tracks for name in steps.columns(session, each.job_id, each.seen)]
        refuse_unknown(asked.columns, list(dict.fromkeys(known)))
    size = curves.grid(tracks, asked.max_points)
    place = asked.jobs.index(asked.baseline)
    compared = [
        Compared(
            job,
            _speedup(job, found[place]),
            curves.loss_drift(session, each, tracks[place]),
            curves.curve(session, each, size, asked.columns),
        )
        for job, each in zip(found, tracks, strict=True)
    ]
    return _document(asked, size, compared)


def _speedup(job: Job, baseline: Job) -> float | None:
    mine, theirs = (each.summary and each.summary.median_examples_per_s for each in (job, baseline))
    if not isinstance(mine, float) or not isinstance(theirs, float) or not theirs:
        return None
    return mine / theirs


def _results(found: Sequence[Job]) -> Iterator[Result]:
    yield Result(name="state", values=[job.state for job in found])
    for name in RESULTS:
        yield Result(name=name, values=[getattr(job.summary, name, None) for job in found])


def _document(asked: Asked, size: int, compared: Sequence[Compared]) -> Iterator[bytes]:
    found = [each.job for each in compared]
    yield b'{"baseline":%b,"steps_per_point":%d,"jobs":[' % (dumps(asked.baseline).encode(), size)
    for index, each in enumerate(compared):
        yield b"," if index else b""
        yield from _one(each)
    spec = [
        Difference(pointer=place, values=values).model_dump(mode="json")
        for place, values in differences([job.spec for job in found])
    ]
    results = [result.model_dump(mode="json") for result in _results(found)]
    yield b"]," + dumps({"spec": spec, "results": results})[1:].encode()


def _one(compared: Compared) -> Iterator[bytes]:
    # One over next to nothing is infinite.
    figures = finite_json({"speedup": compared.speedup, "loss_drift": compared.loss_drift})
    yield b'{"job":' + compared.job.model_dump_json(by_alias=True).encode()
    yield b"," + dumps(figures)[1:-1].encode() + skipped_json(compared.curve.found) + b',"data":{'
    yield from json_columns(compared.curve.table)
    yield b"}}"
