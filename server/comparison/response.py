"""The response of a comparison: curves, results and spec differences as JSON."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy.orm import Session

from ampspec.api.job.comparison import Difference, Result
from ampspec.api.job.jobs import Job
from ampspec.documents.problems import json_pointer
from ampspec.telemetry.json_values import json_safe
from ampspec.telemetry.metrics import MAIN_METRICS
from server.comparison.query import CompareQuery
from server.deps import check_visible
from server.http.access.principal import Principal
from server.http.etag import etag_of
from server.http.responses import dumps
from server.row_models import job_from_row
from server.telemetry.steps_reader import check_columns
from server.telemetry.text_formats import json_columns, skipped_steps_json
from store.jobs import jobs
from store.telemetry import evaluations, steps
from store.telemetry.evaluations import StoredEvaluation

if TYPE_CHECKING:
    from server.comparison.curves import JobCurve

FieldPath = tuple[str, ...]

LOSS_FIELDS: Final = ("steps", "skipped_share", "last_loss", "best_loss", "final_loss")
SPEED_FIELDS: Final = ("median_examples_per_s", "steps_s", "peak_memory_bytes")
"""The fields of each job's summary that a comparison lists, before and after the metrics."""


@dataclass(frozen=True)
class Compared:
    """One job of the comparison, with its figures relative to the baseline."""

    job: Job
    speedup: float | None
    loss_drift: float | None
    curve: "JobCurve"
    evaluations: Sequence[StoredEvaluation]


def visible_jobs(session: Session, query: CompareQuery, principal: Principal) -> list[Job]:
    """The jobs in the requested order. Raises NotFound for one that is not visible."""
    rows = {row.id: row for row in jobs.get_rows(session.connection(), query.jobs)}
    for job_id in query.jobs:
        check_visible(principal, job_id, rows[job_id].project if job_id in rows else None)
    return [job_from_row(rows[job_id]) for job_id in query.jobs]


def etag(session: Session, query: CompareQuery, compared_jobs: Sequence[Job]) -> str:
    """The ETag of the comparison: it changes with any of the jobs."""
    seqs = [jobs.project_and_seq(session, job.id) for job in compared_jobs]
    return etag_of(query, seqs, [job.updated_at for job in compared_jobs])


def compare(session: Session, query: CompareQuery, compared_jobs: Sequence[Job]) -> Iterator[bytes]:
    """Compare the jobs. Raises RequestInvalid for a column that none of them has."""
    from server.comparison import curves

    tracks = [curves.steps_of_job(session, job.id) for job in compared_jobs]
    if query.columns is not None and any(track.ranges for track in tracks):
        columns = [
            name
            for track in tracks
            for name in steps.column_names(session, track.job_id, track.ranges)
        ]
        check_columns(query.columns, list(dict.fromkeys(columns)))
    size = curves.steps_per_point(tracks, query.max_points)
    baseline = query.jobs.index(query.baseline)
    compared = [
        Compared(
            job,
            _speedup(job, compared_jobs[baseline]),
            curves.loss_drift(session, track, tracks[baseline]),
            curves.curve(session, track, size, query.columns),
            evaluations.sample(session, job.id, query.max_points),
        )
        for job, track in zip(compared_jobs, tracks, strict=True)
    ]
    return _json_document(query, size, compared)


def _speedup(job: Job, baseline: Job) -> float | None:
    mine, theirs = (
        None if compared_job.summary is None else compared_job.summary.median_examples_per_s
        for compared_job in (job, baseline)
    )
    if mine is None or not theirs or not math.isfinite(mine) or not math.isfinite(theirs):
        return None
    return mine / theirs


def _results(compared_jobs: Sequence[Job]) -> Iterator[Result]:
    yield Result(name="state", values=[job.state for job in compared_jobs])
    yield Result(name="policy", values=[_trained_policy(job) for job in compared_jobs])
    for name in LOSS_FIELDS:
        yield _summary_result(name, compared_jobs)
    metric_names = (name for job in compared_jobs for name in job.metrics or {})
    for name in dict.fromkeys([*MAIN_METRICS, *metric_names]):
        yield Result(name=name, values=[(job.metrics or {}).get(name) for job in compared_jobs])
    for name in SPEED_FIELDS:
        yield _summary_result(name, compared_jobs)


def _trained_policy(job: Job) -> str | None:
    """The policy that the job trains with, which `auto` may have chosen; None until it starts."""
    return (job.summary.policy if job.summary else None) or job.resolved_policy


def _summary_result(name: str, compared_jobs: Sequence[Job]) -> Result:
    return Result(name=name, values=[getattr(job.summary, name, None) for job in compared_jobs])


def _json_document(query: CompareQuery, size: int, compared: Sequence[Compared]) -> Iterator[bytes]:
    compared_jobs = [entry.job for entry in compared]
    yield b'{"baseline":%b,"steps_per_point":%d,"jobs":[' % (dumps(query.baseline).encode(), size)
    for index, entry in enumerate(compared):
        yield b"," if index else b""
        yield from _entry_json(entry)
    spec = [
        Difference(pointer=path, values=values).to_json()
        for path, values in differences([job.spec for job in compared_jobs])
    ]
    results = [result.to_json() for result in _results(compared_jobs)]
    yield b"]," + dumps({"spec": spec, "results": results})[1:].encode()


def _entry_json(compared: Compared) -> Iterator[bytes]:
    from server.comparison import curves

    # Dividing by almost zero gives infinity.
    figures = json_safe({"speedup": compared.speedup, "loss_drift": compared.loss_drift})
    yield b'{"job":' + compared.job.model_dump_json(by_alias=True).encode()
    yield (
        b","
        + dumps(figures)[1:-1].encode()
        + skipped_steps_json(compared.curve.key_steps)
        + b',"data":{'
    )
    yield from json_columns(compared.curve.table)
    yield b'},"evaluations":{'
    yield from json_columns(curves.evaluation_curve(compared.evaluations, compared.curve))
    yield b"}}"


def differences(documents: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[Any]]]:
    """The JSON pointers at which the documents differ, and the value of each document there.

    None for a document without the field. A list counts as one value.
    """
    leaves = [dict(_leaf_values(document)) for document in documents]
    paths = dict.fromkeys(path for leaf_values in leaves for path in leaf_values)
    values_by_path = {path: [leaf_values.get(path) for leaf_values in leaves] for path in paths}
    return [
        (json_pointer(path), values)
        for path, values in values_by_path.items()
        if any(value != values[0] for value in values)
    ]


def _leaf_values(
    document: Mapping[str, Any], path: FieldPath = ()
) -> Iterator[tuple[FieldPath, Any]]:
    for name, value in document.items():
        if isinstance(value, Mapping) and value:
            yield from _leaf_values(value, (*path, name))
        else:
            yield (*path, name), value
