"""Builds the API's models from database rows.

A row may be damaged, or written by a newer version: fields that cannot be read are left empty,
listed in `unreadable`, and logged.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from math import prod
from types import NoneType
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Row

from ampspec.api.base import StoredModel
from ampspec.api.datasets import Dataset, ListedDatasetVersion, Upload
from ampspec.api.job.attempts import Attempt, Rank
from ampspec.api.job.jobs import FoldedStudy, Job, ListedJob
from ampspec.api.projects import Project
from ampspec.api.workers import UnsavedJob, Worker
from ampspec.jobs import Reason
from ampspec.telemetry.metrics import metrics_of
from infra import traces
from store import tables
from store.access.projects import ProjectLoad
from store.listing.study_folding import StudyGroup
from store.scheduling.fair_share import ProjectShare

log = logging.getLogger(__name__)

M = TypeVar("M", bound=StoredModel)
V = TypeVar("V", bound=ListedDatasetVersion)

BLANK_VALUES: Final[tuple[Any, ...]] = (None, {}, [], "", 0)
"""What replaces a value that cannot be read: the first of these that the field accepts."""


def from_row(model: type[M], row: Any, values: Mapping[str, Any] | None = None) -> M:
    """The model of a row, with `values` in place of the row's own fields of these names."""
    try:
        return model.model_validate(_values(model, row) | dict(values) if values else row)
    except ValidationError as error:
        names = sorted({str(mistake["loc"][0]) for mistake in error.errors()})
    _report_unreadable(model.__name__, _row_name(row), ", ".join(names))
    blanks = {name: _blank_value(model, name) for name in names}
    return model.model_validate(
        _values(model, row) | dict(values or {}) | blanks | {"unreadable": names}
    )


def job_from_row(row: tables.Job | Row[Any], waiting: str | None = None) -> Job:
    """The job of a row; `waiting` says why it does not run yet."""
    values = {
        "waiting": waiting,
        "trace_id": traces.trace_id(row.trace_context),
        **_spec_fields(row.spec),
        **_progress_and_summary(row),
    }
    return from_row(Job, row, values)


def listed_job_from_row(
    row: Row[Any],
    spec: dict[str, Any] | None,
    study: StudyGroup | None = None,
    waiting: str | None = None,
) -> ListedJob:
    """The job of a row of `store.listing.search.page`, with its spec if it is requested.

    `study` is the one for whose jobs it stands; `waiting` says why it does not run yet.
    """
    values = {"waiting": waiting, "spec": spec, **_progress_and_summary(row)}
    values["study"] = None if study is None else FoldedStudy(**vars(study))
    if hasattr(row, "spec"):  # a row that could be read in part only
        values |= _spec_fields(row.spec)
    else:
        batch = (row.batch_size, row.accumulate, row.workers, row.devices)
        values |= _scale_and_batch(row.loss_scale_mode, *batch)
    return from_row(ListedJob, row, values)


def attempt_from_row(row: tables.Attempt, members: Sequence[tables.GangMember]) -> Attempt:
    """The attempt of a row, with its ranks; `members` are the workers of all attempts' ranks."""
    ranks = [rank for member in members if member.attempt == row.attempt for rank in _ranks(member)]
    return from_row(Attempt, row, {"ranks": ranks})


def _ranks(member: tables.GangMember) -> list[Rank]:
    """The ranks of a worker, also those that it has not described yet."""
    described = {
        entry.get("rank"): entry for entry in member.devices or () if isinstance(entry, dict)
    }
    is_lost = member.reason == Reason.WORKER_LOST
    ranks = []
    for number in range(member.first_rank, member.first_rank + member.ranks):
        entry = described.get(number, {})
        device = entry.get("device")
        state = "lost" if is_lost else str(entry.get("state", "starting"))
        ranks.append(
            Rank(
                rank=number,
                worker_id=member.worker_id,
                device=device if isinstance(device, str) else None,
                state=state,
            )
        )
    return ranks


def worker_from_row(
    row: tables.Worker | Row[Any],
    state: str,
    jobs: list[str],
    unsaved: Sequence[UnsavedJob] = (),
    *,
    visible_jobs: Collection[str],
) -> Worker:
    """The worker of a row, with the ids of the jobs that it runs."""
    values = {
        "state": state,
        "jobs": jobs,
        "job_id": row.job_id if row.job_id in visible_jobs else None,
        "draining": row.drain_requested_at is not None,
        "unsaved": list(unsaved),
    }
    return from_row(Worker, row, values)


def project_from_row(
    row: tables.Project,
    load: ProjectLoad,
    project_share: ProjectShare,
    *,
    dataset_bytes: int,
    artifact_bytes: int,
) -> Project:
    """The project of a row, with what it uses of its quotas."""
    return Project(
        name=row.name,
        max_queued=row.max_queued,
        max_running=row.max_running,
        queued=load.queued,
        running=load.running,
        max_dataset_bytes=row.max_dataset_bytes,
        dataset_bytes=dataset_bytes,
        max_artifact_bytes=row.max_artifact_bytes,
        artifact_bytes=artifact_bytes,
        max_devices=row.max_devices,
        devices=project_share.use.devices,
        max_device_hours=row.max_device_hours,
        device_hours=project_share.use.window_hours,
        weight=row.weight,
        share=project_share.share,
        created_at=row.created_at,
    )


def dataset_from_row(row: Row[Any]) -> Dataset:
    """The dataset of a row of `store.files.datasets.page`, with its newest version."""
    values = {"newest": dataset_version_from_row(ListedDatasetVersion, row.newest, row.name)}
    return from_row(Dataset, row, values)


def dataset_version_from_row(model: type[V], row: tables.DatasetVersion, name: str) -> V:
    """The version of a row; `name` is that of its dataset."""
    return from_row(model, row, {"dataset": name})


def upload_from_row(row: tables.DatasetUpload) -> Upload:
    """The upload of a row."""
    return Upload(
        id=row.id,
        dataset=row.name,
        file=row.file_name,
        size_bytes=row.size_bytes,
        offset=row.size_bytes if row.number is not None else row.offset_bytes,
        expires_at=row.expires_at,
        version=row.number,
    )


def _values(model: type[StoredModel], row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in model.model_fields if hasattr(row, name)}


def _blank_value(model: type[StoredModel], name: str) -> Any:
    annotation: Any = model.model_fields[name].annotation
    field = TypeAdapter(annotation)
    for blank in BLANK_VALUES:
        with suppress(ValidationError):
            return field.validate_python(blank)
    raise TypeError(f"{model.__name__}.{name} has no blank value")


def _row_name(row: Any) -> str:
    """The identifying columns of a row, for the log."""
    parts = (getattr(row, name, None) for name in ("job_id", "id", "seq", "attempt", "path"))
    return " ".join(str(part) for part in parts if part is not None)


@lru_cache(maxsize=1000)  # once per row: clients may poll it every second
def _report_unreadable(model: str, row: str, names: str) -> None:
    log.error("the row of the %s %s cannot be read in full: %s", model, row, names)


def _spec_fields(spec: Any) -> dict[str, Any]:
    """The fields of a listed job that come from its spec."""
    parts = spec if isinstance(spec, dict) else {}
    scale, data, train, runtime = (
        parts.get(name) or {} for name in ("loss_scale", "data", "train", "runtime")
    )
    batch = (data.get("batch_size"), train.get("accumulate"))
    ranks = (runtime.get("workers"), runtime.get("devices"))
    return _scale_and_batch(scale.get("mode"), *batch, *ranks)


def _scale_and_batch(loss_scale_mode: Any, batch_size: Any, *factors: Any) -> dict[str, Any]:
    """The examples of a step are `batch_size` times the factors, each of which has the default 1.

    Numbers may come as text; None where a damaged spec has none.
    """
    examples = None
    with suppress(TypeError, ValueError):
        examples = prod(int(factor or 1) for factor in factors) * int(batch_size)
    return {"loss_scale_mode": loss_scale_mode, "examples_per_step": examples}


def _progress_and_summary(row: tables.Job | Row[Any]) -> dict[str, Any]:
    return {"progress": _progress(row), "summary": _summary(row), "metrics": _metrics(row)}


def _metrics(row: tables.Job | Row[Any]) -> Any:
    """The metrics, the main ones first; a value that is no object is reported as unreadable."""
    return metrics_of(row.metrics) if isinstance(row.metrics, dict) else row.metrics


def _progress(row: tables.Job | Row[Any]) -> float | None:
    done, total = row.step, row.total_steps
    if not total or not isinstance(done, int) or not isinstance(total, int):
        return None
    return min(done / total, 1.0)


def _summary(row: tables.Job | Row[Any]) -> Any:
    """The totals of the blocks, the values of the last one, and the trainer's final summary."""
    if row.totals is None:
        return row.summary
    for part in (row.totals, row.summary):
        if not isinstance(part, dict | NoneType):
            return part  # not an object: reported as unreadable
    latest = row.latest if isinstance(row.latest, dict) else {}
    last = {
        "last_loss": latest.get("loss"),
        "loss_scale": latest.get("loss_scale"),
        "last_examples_per_s": latest.get("examples_per_s"),
    }
    return {**row.totals, **last, **(row.summary or {})}
