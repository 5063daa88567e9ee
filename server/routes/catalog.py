"""What a spec may say."""

from fastapi import APIRouter

from server import catalog
from server.views import PartKindList, PolicyList

router = APIRouter(tags=["catalog"])


@router.get("/models")
def models() -> PartKindList:
    """List the kinds of model, with their schemas."""
    return catalog.models()


@router.get("/datasets")
def datasets() -> PartKindList:
    """List the kinds of data, with their schemas."""
    return catalog.datasets()


@router.get("/policies")
def policies() -> PolicyList:
    """List the precision policies."""
    return catalog.policies()
