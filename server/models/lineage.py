"""Where a version comes from: the data, code, study, seeds, precision and environment of a job."""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from ampspec.telemetry import EventType
from ampspec.telemetry.json_values import json_safe
from ampspec.telemetry.metrics import finite_metrics, metrics_of, metrics_of_result
from store import tables
from store.telemetry import events

MAX_EVENTS: Final = 10
RESULTS: Final = (
    *("steps", "skipped_share", "last_loss", "best_loss", "final_loss"),
    *("median_examples_per_s", "steps_s", "peak_memory_bytes", "parameters"),
)
"""The numbers of a job's summary that assertions may name, besides the metrics."""
STARTED: Final = ("device", "tf32", "parameters", "ranks", "global_batch_size", "data", "classes")
"""What is kept of the event of the start."""
SOURCE_FIELDS: Final = frozenset(
    {
        *("kind", "dataset", "path", "package", "name", "options", "shape", "classes", "examples"),
        *("slots", "nnz", "vocabulary", "sequence", "target", "targets", "missing_targets"),
        *("validation", "validation_split", "validation_rows", "split_seed"),
    }
)
"""The fields of `data` that say which examples are evaluated, and against what."""


def lineage_of(session: Session, job: tables.Job, signature: Any) -> dict[str, Any]:
    """The lineage of a job, as JSON.

    Args:
        session: For reading.
        job: The job.
        signature: The content of its `signature.json`.
    """
    spec, summary = job.spec, job.summary or {}
    started = _started(session, job.id)
    code = {
        key: spec["model"][key]
        for key in ("kind", "bundle", "package", "entry_point", "network")
        if spec["model"].get(key) is not None
    }
    environment = signature.get("environment") if isinstance(signature, dict) else None
    lineage = {
        "data": {
            "reference": spec["data"].get("dataset") or spec["data"].get("path"),
            "source": source_of(spec),
            "summary": started.get("data"),
        },
        "code": code,
        "spec": spec,
        "study": session.scalar(
            select(tables.StudyJob.study_id).where(tables.StudyJob.job_id == job.id).limit(1)
        ),
        "extends": job.extends,
        "cloned_from": job.cloned_from,
        "seeds": {"train": spec["train"].get("seed"), "split": spec["data"].get("split_seed")},
        "precision": {
            "policy": job.resolved_policy or summary.get("policy"),
            "asked": job.policy,
            "loss_scale": spec.get("loss_scale"),
            "scale_health": summary.get("scale_health"),
            "tf32": summary.get("tf32"),
            "engine": summary.get("engine"),
        },
        "environment": {
            **{key: started[key] for key in STARTED if key in started and key != "data"},
            **(environment if isinstance(environment, dict) else {}),
        },
        "weights_digest": summary.get("weights_digest"),
        "constant_metrics": metrics_of(summary.get("constant_metrics")),
        "results": results_of(job),
    }
    document: dict[str, Any] = json_safe(lineage)
    return document


def metrics_of_file(job: tables.Job, *, is_best: bool) -> dict[str, float]:
    """The evaluation of the weights in a file: the best ones, or those that the job has chosen."""
    summary = job.summary or {}
    if is_best:
        best = summary.get("best")
        return metrics_of(best.get("metrics")) if isinstance(best, dict) else {}
    return {**metrics_of(job.metrics), **metrics_of_result(summary)}


def results_of(job: tables.Job) -> dict[str, float]:
    """The finite numbers of a job's summary by name, as a comparison lists them."""
    parts: dict[str, Any] = {**(job.totals or {}), **(job.summary or {})}
    numbers = {
        name: float(parts[name])
        for name in RESULTS
        if isinstance(parts.get(name), int | float) and not isinstance(parts[name], bool)
    }
    return finite_metrics(numbers)


def source_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a spec's data that say which examples are evaluated."""
    return {key: value for key, value in spec["data"].items() if key in SOURCE_FIELDS}


def _started(session: Session, job_id: str) -> Mapping[str, Any]:
    """The data of the newest event of a start."""
    rows = events.read(session, job_id, types=[EventType.STARTED], limit=MAX_EVENTS)
    data = [row.data for row in rows if isinstance(row.data, dict)]
    return data[-1] if data else {}
