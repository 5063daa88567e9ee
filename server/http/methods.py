"""HTTP methods: HEAD for every GET route, and the methods that a path supports."""

from typing import Final

from anyio import CancelScope
from fastapi import Request
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS: Final = ("DELETE", "GET", "PATCH", "POST", "PUT")


class HeadAsGet:
    """ASGI middleware: responds to HEAD as to GET, without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application with GET, and send only status and headers."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        enough = CancelScope()

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                enough.cancel()  # stop the application: the body is not needed

        with enough:
            await self.app({**scope, "method": "GET"}, receive, send_head)


def allowed_methods(request: Request) -> list[str]:
    """The methods that the path of a request supports.

    Starlette's router reports only the methods of the first matching route.
    """
    methods = [method for method in METHODS if _takes(request, method)]
    return sorted([*methods, "HEAD"]) if "GET" in methods else methods


def _takes(request: Request, method: str) -> bool:
    scope = {"type": "http", "method": method, "path": request.url.path, "headers": []}
    return any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)
