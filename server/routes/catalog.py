"""What a spec may say."""

from fastapi import APIRouter, Request, Response

from server import catalog
from server.http.etag import conditional_on_body
from server.http.responses import ModelResponse
from server.openapi import TAGGED
from server.views import PartKindList, PolicyList

router = APIRouter(tags=["catalog"])


@router.get(
    "/models", summary="List the kinds of model", response_model=PartKindList, responses=TAGGED
)
def models(request: Request) -> Response:
    """List the kinds of model, with their schemas."""
    return conditional_on_body(request, ModelResponse(catalog.models()))


@router.get(
    "/datasets", summary="List the kinds of data", response_model=PartKindList, responses=TAGGED
)
def datasets(request: Request) -> Response:
    """List the kinds of data, with their schemas."""
    return conditional_on_body(request, ModelResponse(catalog.datasets()))


@router.get(
    "/optimizers",
    summary="List the kinds of optimizer",
    response_model=PartKindList,
    responses=TAGGED,
)
def optimizers(request: Request) -> Response:
    """List the kinds of optimizer, with their schemas."""
    return conditional_on_body(request, ModelResponse(catalog.optimizers()))


@router.get(
    "/policies",
    summary="List the precision policies",
    response_model=PolicyList,
    responses=TAGGED,
)
def policies(request: Request) -> Response:
    """List the precision policies."""
    return conditional_on_body(request, ModelResponse(catalog.policies()))
