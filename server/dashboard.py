"""Serve the dashboard: static files built by `make install`, public because they hold no secret.

The page requests its data from the API, with a session cookie.
"""

from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles

from server.http.access.auth_middleware import DASHBOARD_ASSETS, DASHBOARD_PATH

STATIC_DIR: Final = Path(str(files("server") / "static"))
INDEX: Final = "index.html"
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy: only files of this origin, and pictures inside of responses (previews of
datasets); no inline scripts, no other hosts."""
HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
CACHE_FOREVER: Final = "public, max-age=31536000, immutable"
"""For files whose names contain a hash of their content."""

NOT_BUILT: Final = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>ampcore</title>
<h1>The dashboard is not built</h1>
<p>Run <code>make install</code> in the source tree, then load this page again.
<p>The API is available: <a href="/api/v1/docs">/api/v1/docs</a>.
</html>
"""


class _Assets(StaticFiles):
    """Static files that clients may cache forever."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = CACHE_FOREVER
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response


def install(app: FastAPI, folder: Path = STATIC_DIR) -> None:
    """Add the dashboard's routes; without a built dashboard, a page says how to build it."""
    pages = StaticFiles(directory=folder, check_dir=False)

    async def page(request: Request) -> Response:
        if not (folder / INDEX).is_file():
            return HTMLResponse(NOT_BUILT, 404, headers=HEADERS)
        response = await pages.get_response(INDEX, request.scope)
        response.headers.update(HEADERS)
        return response

    app.add_api_route(DASHBOARD_PATH, page, include_in_schema=False)
    assets = _Assets(directory=folder / DASHBOARD_ASSETS.strip("/"), check_dir=False)
    app.mount(DASHBOARD_ASSETS, GZipMiddleware(assets), name="dashboard-assets")
