"""Which methods a path takes; the router itself names only those of the first route it finds."""

from typing import Final

from fastapi import Request
from starlette.routing import Match

METHODS: Final = ("DELETE", "GET", "PATCH", "POST", "PUT")


def allowed(request: Request) -> str:
    """The value of the Allow header for the path of a request."""
    return ", ".join(method for method in METHODS if _takes(request, method))


def _takes(request: Request, method: str) -> bool:
    scope = {"type": "http", "method": method, "path": request.url.path, "headers": []}
    return any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)
