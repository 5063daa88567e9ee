"""Register the model of a job as a version."""

from sqlalchemy.orm import Session

from ampspec.api.models import RegisterRequest
from ampspec.jobs import Source, State
from ampspec.telemetry.json_values import json_safe
from infra.storage import Storage
from server.deps import job_not_found
from server.errors import Conflict
from server.models import lineage, version_files
from store import tables
from store.access import audit
from store.access.audit import Actor
from store.database import Database
from store.files import artifacts
from store.jobs import jobs
from store.models import registered_models
from store.models.registered_models import NewVersion, changed_tags


def read_job(
    database: Database, storage: Storage, project: str, register_request: RegisterRequest
) -> NewVersion:
    """What a version of a job would consist of.

    It is read before the transaction that registers it, because the storage may be slow; a job
    that has succeeded does not change.

    Raises:
        NotFound: The project has no such job.
        Conflict: The job has not succeeded, or its model is not stored.
    """
    with database.read() as session:
        job = jobs.get(session, register_request.job_id, project=project)
        if job is None:
            raise job_not_found(register_request.job_id)
        _check_succeeded(job)
        rows = artifacts.listing(session, job.id)
        name = version_files.model_file_of(job, rows, register_request.file)
        session.expunge_all()
    files = version_files.newest_by_name(rows)
    version_files.check_stored(storage, files[name])
    signature = version_files.read_document(storage, files.get("signature.json"))
    report = name.removesuffix(version_files.KERAS) + version_files.EXPORTS_SUFFIX
    exports = version_files.read_document(storage, files.get(report))
    summary = job.summary or {}
    best_file = summary.get("best_model_file")
    entries = version_files.files_of_version(files, name, exports, best_file=best_file)
    with database.read() as session:
        lineage_document = lineage.lineage_of(session, job, signature)
    return NewVersion(
        job_id=job.id,
        job_name=job.name,
        files=[entry.to_json() for entry in entries],
        lineage={**lineage_document, "is_best": name == best_file},
        metrics=json_safe(lineage.metrics_of_file(job, is_best=name == best_file)),
        signature=signature,
        note=register_request.note,
        tags=changed_tags({}, register_request.tags),
    )


def add_version(
    session: Session, project: str, name: str, version: NewVersion, actor: Actor
) -> tables.ModelVersion:
    """Add a version in the transaction of the request. Raises NotFound if the job was deleted."""
    model = registered_models.lock_or_create(session, project, name, actor.token_name)
    if not jobs.lock_needed(session, [version.job_id]):
        raise job_not_found(version.job_id)
    row = registered_models.add_version(session, model, version, actor.token_name)
    audit.record(
        session,
        actor,
        "model.register",
        f"{name}:{row.number}",
        project=project,
        job_id=version.job_id,
    )
    return row


def _check_succeeded(job: tables.Job) -> None:
    if job.source == Source.TRACKED:
        raise Conflict(
            f"Cannot register job {job.id}: it is a tracked run, whose files the server does not "
            "have."
        )
    if job.explains is not None:
        raise Conflict(f"Cannot register job {job.id}: it explains a step and trains no model.")
    if job.state != State.SUCCEEDED:
        raise Conflict(
            f"Cannot register job {job.id}: expected the state {State.SUCCEEDED}, received "
            f"{job.state}."
        )
