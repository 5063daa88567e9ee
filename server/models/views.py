"""Builds the API's models of the registry from database rows."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy.orm import Session

from ampspec.api.models import AliasChange, Model, ModelVersion
from ampspec.references.model_reference import ModelReference
from ampspec.telemetry.json_values import json_safe
from server.errors import NotFound
from server.row_models import from_row
from store import tables
from store.models import registered_models


def model_not_found(reference: ModelReference) -> NotFound:
    """The error for a model or version that does not exist, or is of another project."""
    what = f"the alias {reference.alias!r} of a model" if reference.alias else "a model"
    return NotFound(f"There is no model {str(reference)[:140]!r}; expected {what} of the project.")


def versions_from_rows(
    session: Session, name: str, rows: Sequence[tables.ModelVersion]
) -> list[ModelVersion]:
    """The versions of rows of one model, with their aliases."""
    aliases = registered_models.aliases_of(session, {row.model_id for row in rows})
    return [version_from_row(row, name, aliases) for row in rows]


def version_from_row(
    row: tables.ModelVersion, name: str, aliases: Iterable[tables.ModelAlias]
) -> ModelVersion:
    """The version of a row; `aliases` are those of any models."""
    of_version = [
        alias.alias
        for alias in aliases
        if (alias.model_id, alias.number) == (row.model_id, row.number)
    ]
    return from_row(ModelVersion, row, {"model": name, "aliases": of_version})


def models_from_rows(session: Session, rows: Sequence[Any]) -> list[Model]:
    """The models of rows of `store.models.registered_models.page`."""
    aliases = registered_models.aliases_of(session, {model.id for model, _, _ in rows})
    return [
        from_row(
            Model,
            model,
            {
                "aliases": {
                    alias.alias: alias.number for alias in aliases if alias.model_id == model.id
                },
                "version_count": version_count,
                "newest": version_from_row(newest, model.name, aliases),
            },
        )
        for model, newest, version_count in rows
    ]


def change_from_row(row: tables.ModelAliasChange) -> AliasChange:
    """The entry of the history of a row."""
    return from_row(AliasChange, row, {"checks": json_safe(row.checks)})
