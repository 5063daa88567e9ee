"""Models of a project, and their versions.

Every transaction that registers, deletes or restores a version, or changes an alias, first locks
the row of the model (`lock`): so numbers are never given twice, and no alias names a deleted
version.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Select, func, select, update
from sqlalchemy.orm import Session

from ampspec.references.model_reference import ModelReference
from store.clock import now
from store.rows import insert_if_absent
from store.tables import ModelAlias, ModelVersion, RegisteredModel, new_id


@dataclass(frozen=True)
class NewVersion:
    """What a version consists of, read from a job."""

    job_id: str
    job_name: str
    files: list[Any]
    lineage: dict[str, Any]
    metrics: dict[str, Any]
    signature: dict[str, Any] | None
    note: str | None = None
    tags: dict[str, str] = field(default_factory=dict)


def lock(session: Session, project: str, name: str) -> RegisteredModel | None:
    """The model, locked until the transaction ends; None if it was never registered."""
    statement = _by_name(project, name).with_for_update()
    return session.scalars(statement.execution_options(populate_existing=True)).one_or_none()


def lock_or_create(
    session: Session, project: str, name: str, created_by: str | None
) -> RegisteredModel:
    """The same; a model that was never registered is created."""
    values = {"project": project, "name": name, "created_by": created_by}
    empty = {"id": new_id(), "last_number": 0, "tags": {}, "gates": {}}
    session.execute(insert_if_absent(session, RegisteredModel, **empty, **values))
    model = lock(session, project, name)
    if model is None:  # its row is never deleted
        raise LookupError(f"the model {name!r} of {project!r} was deleted")
    return model


def add_version(
    session: Session, model: RegisteredModel, version: NewVersion, created_by: str | None
) -> ModelVersion:
    """Add the next version of a locked model. The job must be locked against deletion."""
    model.last_number += 1
    row = ModelVersion(
        model_id=model.id, number=model.last_number, created_by=created_by, **vars(version)
    )
    session.add(row)
    session.flush()
    session.refresh(row)
    return row


def page(
    session: Session,
    project: str,
    *,
    name: str | None = None,
    after_name: str | None = None,
    limit: int,
) -> Sequence[Any]:
    """Models by name: those after the name `after_name`, or only the one called `name`.

    A row has `RegisteredModel`, its newest `ModelVersion`, and `version_count`.
    """
    counts = (
        select(
            ModelVersion.model_id,
            func.count().label("version_count"),
            func.max(ModelVersion.number).label("newest_number"),
        )
        .where(ModelVersion.deleted_at.is_(None))
        .group_by(ModelVersion.model_id)
        .subquery()
    )
    statement = (
        select(RegisteredModel, ModelVersion, counts.c.version_count)
        .join(counts, counts.c.model_id == RegisteredModel.id)
        .join(
            ModelVersion,
            (ModelVersion.model_id == RegisteredModel.id)
            & (ModelVersion.number == counts.c.newest_number),
        )
        .where(RegisteredModel.project == project)
        .order_by(RegisteredModel.name)
        .limit(limit)
    )
    if name is not None:
        statement = statement.where(RegisteredModel.name == name)
    if after_name is not None:
        statement = statement.where(RegisteredModel.name > after_name)
    return session.execute(statement).all()


def find(session: Session, project: str, reference: ModelReference) -> ModelVersion | None:
    """The version that a reference names, also a deleted one by its number; None without it."""
    statement = (
        select(ModelVersion)
        .join(RegisteredModel, RegisteredModel.id == ModelVersion.model_id)
        .where(RegisteredModel.project == project, RegisteredModel.name == reference.name)
    )
    if reference.number is not None:
        statement = statement.where(ModelVersion.number == reference.number)
    elif reference.alias is not None:
        statement = statement.join(
            ModelAlias,
            (ModelAlias.model_id == ModelVersion.model_id)
            & (ModelAlias.number == ModelVersion.number),
        ).where(ModelAlias.alias == reference.alias)
    else:
        statement = statement.where(ModelVersion.deleted_at.is_(None))
        statement = statement.order_by(ModelVersion.number.desc()).limit(1)
    options = {"populate_existing": True}
    return session.scalars(statement.execution_options(**options)).one_or_none()


def versions(
    session: Session,
    project: str,
    name: str,
    *,
    deleted: bool = False,
    before_number: int | None = None,
    limit: int,
) -> Sequence[ModelVersion]:
    """The versions of a model, the newest first; with `deleted` those that are deleted."""
    statement = (
        select(ModelVersion)
        .join(RegisteredModel, RegisteredModel.id == ModelVersion.model_id)
        .where(
            RegisteredModel.project == project,
            RegisteredModel.name == name,
            ModelVersion.deleted_at.is_not(None) if deleted else ModelVersion.deleted_at.is_(None),
        )
    )
    if before_number is not None:
        statement = statement.where(ModelVersion.number < before_number)
    return session.scalars(statement.order_by(ModelVersion.number.desc()).limit(limit)).all()


def aliases_of(session: Session, model_ids: Collection[str]) -> Sequence[ModelAlias]:
    """The aliases of models, by name."""
    statement = select(ModelAlias).where(ModelAlias.model_id.in_(model_ids))
    return session.scalars(statement.order_by(ModelAlias.alias)).all()


def mark_deleted(
    session: Session, model: RegisteredModel, numbers: Collection[int], deleted_by: str | None
) -> None:
    """Delete versions of a locked model; they can be restored while their jobs exist."""
    _update(session, model, numbers, deleted_at=now(), deleted_by=deleted_by)


def restore(session: Session, model: RegisteredModel, number: int) -> None:
    """Restore a deleted version of a locked model, whose job is locked against deletion."""
    _update(session, model, [number], deleted_at=None, deleted_by=None)


def references_to_job(session: Session, job_id: str) -> Sequence[str]:
    """The versions made from a job that are not deleted, such as `digits:3`."""
    statement = (
        select(RegisteredModel.name, ModelVersion.number)
        .join(ModelVersion, ModelVersion.model_id == RegisteredModel.id)
        .where(ModelVersion.job_id == job_id, ModelVersion.deleted_at.is_(None))
        .order_by(RegisteredModel.name, ModelVersion.number)
    )
    return [str(ModelReference(name, number)) for name, number in session.execute(statement)]


def _update(
    session: Session, model: RegisteredModel, numbers: Collection[int], **values: Any
) -> None:
    statement = update(ModelVersion).where(
        ModelVersion.model_id == model.id, ModelVersion.number.in_(numbers)
    )
    session.execute(statement.values(**values).execution_options(synchronize_session="fetch"))


def _by_name(project: str, name: str) -> Select[RegisteredModel]:
    return select(RegisteredModel).where(
        RegisteredModel.project == project, RegisteredModel.name == name
    )


def changed_tags(tags: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Tags with changes; those whose new value is None are removed."""
    return {key: value for key, value in {**tags, **changes}.items() if value is not None}
