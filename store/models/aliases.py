"""Aliases of models: each names one version at a time, and every change stays in the history."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from store.clock import now
from store.rows import insert_rows
from store.tables import ModelAlias, ModelAliasChange, RegisteredModel


def number_of(session: Session, model: RegisteredModel, alias: str) -> int | None:
    """The number of the version that has the alias; None if none has it."""
    statement = select(ModelAlias.number).where(
        ModelAlias.model_id == model.id, ModelAlias.alias == alias
    )
    return session.scalar(statement)


def set_alias(
    session: Session, model: RegisteredModel, alias: str, number: int, updated_by: str | None
) -> None:
    """Give the alias of a locked model to a version."""
    values = {"number": number, "updated_by": updated_by}
    is_alias = (ModelAlias.model_id == model.id, ModelAlias.alias == alias)
    statement = update(ModelAlias).where(*is_alias).values(**values, updated_at=now())
    returning = statement.returning(ModelAlias.alias)
    if session.scalar(returning.execution_options(synchronize_session=False)) is None:
        insert_rows(session, ModelAlias, {"model_id": model.id, "alias": alias, **values})


def remove_alias(session: Session, model: RegisteredModel, alias: str) -> None:
    """Remove the alias of a locked model."""
    statement = delete(ModelAlias).where(ModelAlias.model_id == model.id, ModelAlias.alias == alias)
    session.execute(statement.execution_options(synchronize_session=False))


def record_change(
    session: Session, model: RegisteredModel, alias: str, **values: Any
) -> ModelAliasChange:
    """Add an entry to the history of a model.

    Args:
        session: Of the transaction that makes the change.
        model: The model, locked.
        alias: The alias.
        **values: The other columns of `ModelAliasChange`.
    """
    row = ModelAliasChange(model_id=model.id, alias=alias, **values)
    session.add(row)
    session.flush()
    session.refresh(row)
    return row


def history(
    session: Session,
    model: RegisteredModel,
    *,
    alias: str | None,
    before_id: int | None,
    limit: int,
) -> Sequence[ModelAliasChange]:
    """The changes of a model's aliases, or of one of them, the newest first."""
    statement = select(ModelAliasChange).where(ModelAliasChange.model_id == model.id)
    if alias is not None:
        statement = statement.where(ModelAliasChange.alias == alias)
    if before_id is not None:
        statement = statement.where(ModelAliasChange.id < before_id)
    return session.scalars(statement.order_by(ModelAliasChange.id.desc()).limit(limit)).all()
