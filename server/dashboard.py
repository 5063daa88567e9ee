"""The dashboard: the files that `make install` builds, for every browser to have.

They hold no secret; what the page shows it asks the API for, with the cookie of its session.
"""

from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles

from server.access.door import PAGE, PAGE_FILES

BUILT: Final = Path(str(files("server") / "static"))
INDEX: Final = "index.html"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Scripts and styles come from here, in files; nothing comes from or goes to anywhere else."""
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
FOREVER: Final = "public, max-age=31536000, immutable"
"""For files whose names change with what is in them."""

NOT_BUILT: Final = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>ampcore</title>
<h1>The dashboard is not built</h1>
<p>Run <code>make install</code> in the source tree, then load this page again.
<p>The API is here nevertheless: <a href="/api/v1/docs">/api/v1/docs</a>.
</html>
"""


class _Assets(StaticFiles):
    """Files that never change, as long as they are there."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = FOREVER
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response


def install(app: FastAPI, folder: Path = BUILT) -> None:
    """Serve the dashboard that is built into the folder; without one, tell how to build it."""
    pages = StaticFiles(directory=folder, check_dir=False)

    async def page(request: Request) -> Response:
        if not (folder / INDEX).is_file():
            return HTMLResponse(NOT_BUILT, 404, headers=HEADERS)
        response = await pages.get_response(INDEX, request.scope)
        response.headers.update(HEADERS)
        return response

    app.add_api_route(PAGE, page, include_in_schema=False)
    assets = _Assets(directory=folder / PAGE_FILES.strip("/"), check_dir=False)
    app.mount(PAGE_FILES, GZipMiddleware(assets), name="dashboard-assets")
