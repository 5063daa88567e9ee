"""List the kinds of models, layers, data and optimizers, and the precision policies."""

from fastapi import APIRouter, Request, Response

from ampcore.api.catalog import PolicyList, SpecKindList
from server import catalog
from server.http.etag import respond_unless_body_cached
from server.http.responses import ModelResponse
from server.openapi import ETAG_RESPONSES

router = APIRouter(tags=["catalog"])


@router.get(
    "/models",
    summary="List the kinds of model",
    response_model=SpecKindList,
    responses=ETAG_RESPONSES,
)
def models(request: Request) -> Response:
    """List the kinds of model, with their schemas."""
    return respond_unless_body_cached(request, ModelResponse(catalog.models()))


@router.get(
    "/layers",
    summary="List the kinds of layer",
    response_model=SpecKindList,
    responses=ETAG_RESPONSES,
)
def layers(request: Request) -> Response:
    """List the kinds of layer that own models are built from, with their schemas."""
    return respond_unless_body_cached(request, ModelResponse(catalog.layers()))


@router.get(
    "/data-kinds",
    summary="List the kinds of data",
    response_model=SpecKindList,
    responses=ETAG_RESPONSES,
)
def data_kinds(request: Request) -> Response:
    """List the kinds of data, with their schemas."""
    return respond_unless_body_cached(request, ModelResponse(catalog.data_kinds()))


@router.get(
    "/optimizers",
    summary="List the kinds of optimizer",
    response_model=SpecKindList,
    responses=ETAG_RESPONSES,
)
def optimizers(request: Request) -> Response:
    """List the kinds of optimizer, with their schemas."""
    return respond_unless_body_cached(request, ModelResponse(catalog.optimizers()))


@router.get(
    "/policies",
    summary="List the precision policies",
    response_model=PolicyList,
    responses=ETAG_RESPONSES,
)
def policies(request: Request) -> Response:
    """List the precision policies."""
    return respond_unless_body_cached(request, ModelResponse(catalog.policies()))
