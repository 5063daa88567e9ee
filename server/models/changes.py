"""Change the notes, tags and gates of a model, and the notes and tags of a version."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from ampspec.api.models import MAX_TAGS, ModelChanges, NotesRequest
from ampspec.references.model_reference import ModelReference
from server.errors import Conflict
from server.models.promotion import parse_assertions
from server.models.views import model_not_found
from store import tables
from store.access import audit
from store.access.audit import Actor
from store.models import registered_models
from store.models.registered_models import changed_tags


def change_model(
    session: Session, project: str, name: str, changes: ModelChanges, actor: Actor
) -> None:
    """Change a model. Raises NotFound, RequestInvalid for an assertion, and Conflict."""
    for alias, assertions in changes.gates.items():
        parse_assertions(assertions or (), f"/gates/{alias}")
    model = registered_models.lock(session, project, name)
    if model is None or not registered_models.page(session, project, name=name, limit=1):
        raise model_not_found(ModelReference(name))
    _change_notes(model, changes)
    gates = {**model.gates, **changes.gates}
    model.gates = {alias: assertions for alias, assertions in gates.items() if assertions}
    session.flush()
    details = _details(changes, changes.gates)
    audit.record(session, actor, "model.edit", name, project=project, **details)


def change_version(
    session: Session,
    project: str,
    reference: ModelReference,
    changes: NotesRequest,
    actor: Actor,
) -> tables.ModelVersion:
    """Change the note and tags of a version. Raises NotFound and Conflict."""
    registered_models.lock(session, project, reference.name)
    version = registered_models.find(session, project, reference)
    if version is None:
        raise model_not_found(reference)
    _change_notes(version, changes)
    session.flush()
    target = f"{reference.name}:{version.number}"
    audit.record(session, actor, "model.edit", target, project=project, **_details(changes))
    return version


def _change_notes(row: tables.RegisteredModel | tables.ModelVersion, changes: NotesRequest) -> None:
    if "note" in changes.model_fields_set:
        row.note = changes.note
    tags = changed_tags(row.tags, changes.tags)
    if len(tags) > MAX_TAGS:
        raise Conflict(f"Expected at most {MAX_TAGS} tags, received {len(tags)}.")
    row.tags = tags


def _details(
    changes: NotesRequest, gates: Mapping[str, list[str] | None] | None = None
) -> dict[str, Any]:
    """What the audit log says about the changes, without the texts of notes."""
    data = {
        "tags": changes.tags,
        "note": "changed" if "note" in changes.model_fields_set else None,
        "gates": dict(gates or {}),
    }
    return {name: value for name, value in data.items() if value}
