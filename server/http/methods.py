"""The methods of a path: HEAD wherever GET is, and the names of all that it takes."""

from typing import Final

from anyio import CancelScope
from fastapi import Request
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS: Final = ("DELETE", "GET", "PATCH", "POST", "PUT")


class HeadAsGet:
    """ASGI middleware: answers HEAD as GET would be answered, without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer a GET, and send on what HEAD may hear of it."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        enough = CancelScope()

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                enough.cancel()  # nothing of a long body is made for nobody

        with enough:
            await self.app({**scope, "method": "GET"}, receive, send_head)


def allowed(request: Request) -> list[str]:
    """The methods that the path of a request takes.

    The router itself names only those of the first route that it finds.
    """
    methods = [method for method in METHODS if _takes(request, method)]
    return sorted([*methods, "HEAD"]) if "GET" in methods else methods


def _takes(request: Request, method: str) -> bool:
    scope = {"type": "http", "method": method, "path": request.url.path, "headers": []}
    return any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)
