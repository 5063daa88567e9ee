"""Give aliases to versions of models, remove them, and promote versions."""

from typing import Annotated

from fastapi import Depends, Path, Query, Response
from sqlalchemy.orm import Session

from ampspec.api.models import (
    AliasChange,
    AliasName,
    AliasRequest,
    PromotionRequest,
    Reason,
)
from server.deps import ActorDep, DatabaseDep, MemberDep, ProjectDep, StorageDep
from server.documentation.openapi import problems
from server.http.json_body import JsonRoute
from server.http.responses import to_response
from server.http.router import api_router
from server.idempotency import IdempotentRequestDep, replay, respond_once
from server.models import promotion
from server.models.promotion import AliasKey
from server.models.routes import Name
from server.models.views import change_from_row
from store import tables
from store.access.idempotency import StoredResponse

router = api_router(
    "/registered-models/{name}/aliases/{alias}", tags=["models"], route_class=JsonRoute
)


def _key(
    name: Name,
    alias: Annotated[AliasName, Path(description="The alias, such as `champion`.")],
    project: ProjectDep,
) -> AliasKey:
    return AliasKey(project, name, alias)


AliasKeyDep = Annotated[AliasKey, Depends(_key)]
"""The alias in the path."""


@router.put(
    "",
    summary="Give an alias to a version",
    response_model=AliasChange,
    responses=problems(404, 409, 422),
)
def put(
    *,
    key: AliasKeyDep,
    alias_request: AliasRequest,
    database: DatabaseDep,
    _member: MemberDep,
    actor: ActorDep,
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """Give an alias to a version, in one step; 409 if the alias has a gate."""

    def make(session: Session) -> StoredResponse:
        return _stored(promotion.set_alias(session, key, alias_request, actor))

    return to_response(respond_once(database, idempotent_request, make))


@router.delete(
    "",
    summary="Remove an alias",
    response_model=AliasChange,
    responses=problems(404, 409, 422),
)
def delete(
    *,
    key: AliasKeyDep,
    database: DatabaseDep,
    _member: MemberDep,
    actor: ActorDep,
    idempotent_request: IdempotentRequestDep,
    if_version: Annotated[
        int | None, Query(ge=1, le=2**31 - 1, description="Only if this version has the alias.")
    ] = None,
    reason: Annotated[Reason | None, Query(description="For the history.")] = None,
) -> Response:
    """Remove an alias; 409 if it has a gate."""

    def make(session: Session) -> StoredResponse:
        return _stored(promotion.remove_alias(session, key, if_version, reason, actor))

    return to_response(respond_once(database, idempotent_request, make))


@router.post(
    "/promote",
    summary="Promote a version if assertions hold",
    response_model=AliasChange,
    responses=problems(404, 409, 422),
)
def promote(
    *,
    key: AliasKeyDep,
    promotion_request: PromotionRequest,
    database: DatabaseDep,
    storage: StorageDep,
    _member: MemberDep,
    actor: ActorDep,
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """Give an alias to a version if all assertions hold, of the request and of the alias's gate.

    The response is 200 also for a promotion that is refused or undecided, which changes nothing:
    read `outcome`. The checks are kept in the history.
    """
    if (stored := replay(database, idempotent_request)) is not None:
        return to_response(stored)
    checked = promotion.check_assertions(database, storage, key, promotion_request)

    def make(session: Session) -> StoredResponse:
        return _stored(promotion.promote(session, key, promotion_request, checked, actor))

    return to_response(respond_once(database, idempotent_request, make))


def _stored(row: tables.ModelAliasChange) -> StoredResponse:
    return StoredResponse(200, {}, change_from_row(row).model_dump_json())
