"""Requests for the model registry: models, versions, aliases and promotions."""

from collections.abc import Mapping
from typing import Any

from ampclient._endpoints.request import (
    JsonRequest,
    Request,
    idempotency_header,
    params,
    parse_nothing,
    quote_path,
)
from ampspec.api.models import (
    AliasChange,
    AliasChangePage,
    Model,
    ModelPage,
    ModelVersion,
    ModelVersionPage,
)
from ampspec.references.model_reference import ModelReference


def list_models(limit: int, cursor: str | None) -> JsonRequest[ModelPage]:
    """A page of the models."""
    page = params(limit=limit, cursor=cursor)
    return JsonRequest(
        method="GET", path="/registered-models", params=page, read=ModelPage.from_json
    )


def get_model(name: str) -> JsonRequest[Model]:
    """A model with its aliases and its newest version."""
    return JsonRequest(method="GET", path=_path(name), read=Model.from_json)


def change_model(name: str, changes: Mapping[str, Any]) -> JsonRequest[Model]:
    """Change the note, tags and gates of a model."""
    return JsonRequest(
        method="PATCH",
        path=_path(name),
        body=dict(changes),
        headers=idempotency_header(),
        read=Model.from_json,
    )


def list_model_versions(
    name: str, limit: int, cursor: str | None, *, deleted: bool = False
) -> JsonRequest[ModelVersionPage]:
    """A page of the versions of a model, or of those that are deleted."""
    return JsonRequest(
        method="GET",
        path=_path(name, "versions"),
        params=params(limit=limit, cursor=cursor, deleted="true" if deleted else None),
        read=ModelVersionPage.from_json,
    )


def get_model_version(reference: ModelReference) -> JsonRequest[ModelVersion]:
    """A version of a model."""
    return JsonRequest(method="GET", path=_version_path(reference), read=ModelVersion.from_json)


def register_model(
    name: str, body: Mapping[str, Any], idempotency_key: str | None
) -> JsonRequest[ModelVersion]:
    """Register the model of a job."""
    return JsonRequest(
        method="POST",
        path=_path(name, "versions"),
        body=dict(body),
        headers=idempotency_header(idempotency_key),
        read=ModelVersion.from_json,
    )


def change_model_version(
    reference: ModelReference, changes: Mapping[str, Any]
) -> JsonRequest[ModelVersion]:
    """Change the note and tags of a version."""
    return JsonRequest(
        method="PATCH",
        path=_version_path(reference),
        body=dict(changes),
        headers=idempotency_header(),
        read=ModelVersion.from_json,
    )


def delete_model(reference: ModelReference) -> JsonRequest[None]:
    """Delete a version, or all of them without a number."""
    path = _path(reference.name) if reference.number is None else _version_path(reference)
    return JsonRequest(method="DELETE", path=path, headers=idempotency_header(), read=parse_nothing)


def undelete_model_version(reference: ModelReference) -> JsonRequest[ModelVersion]:
    """Restore a deleted version."""
    return JsonRequest(
        method="POST",
        path=f"{_version_path(reference)}/undelete",
        headers=idempotency_header(),
        read=ModelVersion.from_json,
    )


def get_model_file(name: str, number: int, file_format: str, *, start: int) -> Request:
    """The bytes of a version in a format, from offset `start` on."""
    # No compression: a range of a compressed response could not be resumed.
    headers = [("Accept", "*/*"), ("Accept-Encoding", "identity")]
    if start:
        headers.append(("Range", f"bytes={start}-"))
    path = _path(name, "versions", str(number), "files", quote_path(file_format))
    return Request(method="GET", path=path, headers=headers)


def get_model_card(reference: ModelReference) -> Request:
    """The model card of a version."""
    return Request(
        method="GET",
        path=f"{_version_path(reference)}/card",
        headers=[("Accept", "text/markdown")],
    )


def set_model_alias(name: str, alias: str, body: Mapping[str, Any]) -> JsonRequest[AliasChange]:
    """Give an alias to a version."""
    return JsonRequest(
        method="PUT",
        path=_path(name, "aliases", quote_path(alias)),
        body=dict(body),
        headers=idempotency_header(),
        read=AliasChange.from_json,
    )


def remove_model_alias(
    name: str, alias: str, *, if_version: int | None, reason: str | None
) -> JsonRequest[AliasChange]:
    """Remove an alias."""
    return JsonRequest(
        method="DELETE",
        path=_path(name, "aliases", quote_path(alias)),
        params=params(if_version=if_version, reason=reason),
        headers=idempotency_header(),
        read=AliasChange.from_json,
    )


def promote_model(name: str, alias: str, body: Mapping[str, Any]) -> JsonRequest[AliasChange]:
    """Give an alias to a version if assertions hold."""
    return JsonRequest(
        method="POST",
        path=_path(name, "aliases", quote_path(alias), "promote"),
        body=dict(body),
        headers=idempotency_header(),
        read=AliasChange.from_json,
    )


def list_alias_changes(
    name: str, limit: int, cursor: str | None, *, alias: str | None = None
) -> JsonRequest[AliasChangePage]:
    """A page of the history of a model's aliases."""
    return JsonRequest(
        method="GET",
        path=_path(name, "history"),
        params=params(limit=limit, cursor=cursor, alias=alias),
        read=AliasChangePage.from_json,
    )


def _path(name: str, *segments: str) -> str:
    return "/".join(["/registered-models", quote_path(name), *segments])


def _version_path(reference: ModelReference) -> str:
    return _path(reference.name, "versions", quote_path(reference.version))
