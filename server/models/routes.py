"""List, read, change and delete models, and read the history of their aliases."""

from typing import Annotated

from fastapi import Path, Query, Request, Response
from sqlalchemy.orm import Session

from ampspec.api.models import (
    AliasChangePage,
    AliasName,
    Model,
    ModelChanges,
    ModelName,
    ModelPage,
)
from ampspec.references.model_reference import ModelReference
from server.deps import ActorDep, DatabaseDep, MemberDep, ProjectDep
from server.documentation.openapi import ETAG_RESPONSES, problems
from server.http.etag import respond_unless_body_cached
from server.http.json_body import JsonRoute
from server.http.responses import ModelResponse, to_response
from server.http.router import api_router
from server.idempotency import IdempotentRequestDep, respond_once
from server.models.changes import change_model
from server.models.deletion import delete_versions
from server.models.views import change_from_row, model_not_found, models_from_rows
from store.access.idempotency import StoredResponse
from store.models import aliases, registered_models

router = api_router("/registered-models", tags=["models"], route_class=JsonRoute)

Name = Annotated[ModelName, Path(description="The model's name.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="Maximum number of items per page.")]


@router.get(
    "",
    summary="List models",
    response_model=ModelPage,
    responses={**ETAG_RESPONSES, **problems(404)},
)
def listing(
    *,
    project: ProjectDep,
    database: DatabaseDep,
    request: Request,
    cursor: Annotated[ModelName | None, Query(description="From the page before.")] = None,
    limit: Limit = 100,
) -> Response:
    """List the models of the token's project by name, each with its newest version."""
    with database.read() as session:
        rows = registered_models.page(session, project, after_name=cursor, limit=limit + 1)
        items = models_from_rows(session, rows[:limit])
    following = items[-1].name if len(rows) > limit else None
    page = ModelPage(items=items, next_cursor=following)
    return respond_unless_body_cached(request, ModelResponse(page))


@router.get(
    "/{name}",
    summary="Read a model",
    response_model=Model,
    responses={**ETAG_RESPONSES, **problems(404)},
)
def read(name: Name, project: ProjectDep, database: DatabaseDep, request: Request) -> Response:
    """Read a model with its aliases and its newest version."""
    with database.read() as session:
        rows = registered_models.page(session, project, name=name, limit=1)
        if not rows:
            raise model_not_found(ModelReference(name))
        [model] = models_from_rows(session, rows)
    return respond_unless_body_cached(request, ModelResponse(model))


@router.patch(
    "/{name}",
    summary="Change the note, tags and gates of a model",
    response_model=Model,
    responses=problems(404, 409, 422),
)
def change(
    *,
    name: Name,
    changes: ModelChanges,
    project: ProjectDep,
    database: DatabaseDep,
    _member: MemberDep,
    actor: ActorDep,
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """Change the note, tags and gates of a model; what is left out stays."""

    def make(session: Session) -> StoredResponse:
        change_model(session, project, name, changes, actor)
        rows = registered_models.page(session, project, name=name, limit=1)
        [model] = models_from_rows(session, rows)
        return StoredResponse(200, {}, model.model_dump_json())

    return to_response(respond_once(database, idempotent_request, make))


@router.delete(
    "/{name}",
    summary="Delete a model",
    status_code=204,
    response_class=Response,
    responses=problems(404, 409),
)
def delete(
    *,
    name: Name,
    project: ProjectDep,
    database: DatabaseDep,
    _member: MemberDep,
    actor: ActorDep,
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """Delete every version of a model; 409 while one of them has an alias."""

    def make(session: Session) -> StoredResponse:
        delete_versions(session, project, ModelReference(name), actor)
        return StoredResponse(204, {}, "")

    return to_response(respond_once(database, idempotent_request, make))


@router.get(
    "/{name}/history",
    summary="List the changes of a model's aliases",
    response_model=AliasChangePage,
    responses={**ETAG_RESPONSES, **problems(404)},
)
def history(
    *,
    name: Name,
    project: ProjectDep,
    database: DatabaseDep,
    request: Request,
    alias: Annotated[AliasName | None, Query(description="Only this alias.")] = None,
    cursor: Annotated[int | None, Query(ge=1, description="From the page before.")] = None,
    limit: Limit = 100,
) -> Response:
    """List who gave which alias to which version, with promotions that were refused."""
    with database.read() as session:
        pages = registered_models.page(session, project, name=name, limit=1)
        if not pages:
            raise model_not_found(ModelReference(name))
        rows = aliases.history(session, pages[0][0], alias=alias, before_id=cursor, limit=limit + 1)
        items = [change_from_row(row) for row in rows[:limit]]
    following = str(items[-1].id) if len(rows) > limit else None
    page = AliasChangePage(items=items, next_cursor=following)
    return respond_unless_body_cached(request, ModelResponse(page))
