"""Delete versions of models, and restore them."""

from sqlalchemy.orm import Session

from ampspec.references.model_reference import ModelReference
from server.errors import Conflict
from server.models.views import model_not_found
from store import tables
from store.access import audit
from store.access.audit import Actor
from store.jobs import jobs, trash
from store.models import registered_models


def delete_versions(
    session: Session, project: str, reference: ModelReference, actor: Actor
) -> None:
    """Delete a version, or all of them without a number.

    The files stay with the job, so that the version can be restored; the job may then be deleted.

    Raises:
        NotFound: There is no such version.
        Conflict: A version has an alias.
    """
    model = registered_models.lock(session, project, reference.name)
    if model is None:
        raise model_not_found(reference)
    rows = registered_models.versions(session, project, reference.name, limit=2**31 - 1)
    numbers = [row.number for row in rows if reference.number in (None, row.number)]
    if not numbers:
        raise model_not_found(reference)
    alias_names = [
        f"{alias.alias} ({reference.name}:{alias.number})"
        for alias in registered_models.aliases_of(session, [model.id])
        if alias.number in numbers
    ]
    if alias_names:
        raise Conflict(
            f"Cannot delete {reference}: it has the alias {', '.join(alias_names)}. Give it "
            "to another version, or remove it first."
        )
    registered_models.mark_deleted(session, model, numbers, actor.token_name)
    audit.record(session, actor, "model.delete", str(reference), project=project, versions=numbers)


def restore_version(
    session: Session, project: str, reference: ModelReference, actor: Actor
) -> tables.ModelVersion:
    """Restore a deleted version.

    Raises:
        NotFound: There is no such version.
        Conflict: It is not deleted, or its job was deleted, with the files.
    """
    model = registered_models.lock(session, project, reference.name)
    row = registered_models.find(session, project, reference)
    if model is None or row is None:
        raise model_not_found(reference)
    if row.deleted_at is None:
        raise Conflict(f"Cannot restore {reference}: it is not deleted.")
    if row.job_id is None or not jobs.lock_needed(session, [row.job_id]):
        restore_first = ""
        if row.job_id is not None and trash.find(session, row.job_id) is not None:
            restore_first = f" It is in the trash: `ampctl job restore {row.job_id}` restores it."
        raise Conflict(
            f"Cannot restore {reference}: its job {row.job_name!r} was deleted, with its files."
            f"{restore_first}"
        )
    registered_models.restore(session, model, row.number)
    audit.record(session, actor, "model.undelete", str(reference), project=project)
    session.refresh(row)
    return row
