"""What a spec may say."""

from fastapi import APIRouter

from server import catalog
from server.views import PartKindList, PolicyList

router = APIRouter(tags=["catalog"])


@router.get("/models", summary="List the kinds of model")
def models() -> PartKindList:
    """List the kinds of model, with their schemas."""
    return catalog.models()


@router.get("/datasets", summary="List the kinds of data")
def datasets() -> PartKindList:
    """List the kinds of data, with their schemas."""
    return catalog.datasets()


@router.get("/policies", summary="List the precision policies")
def policies() -> PolicyList:
    """List the precision policies."""
    return catalog.policies()
