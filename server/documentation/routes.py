"""The OpenAPI document, and Swagger UI without requests to other hosts."""

from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.staticfiles import StaticFiles

from server.http.router import API_PREFIX

router = APIRouter(prefix=API_PREFIX, include_in_schema=False)

ASSETS: Final = "/api/v1/docs/assets"
POLICY: Final = (
    "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy: only this origin; Swagger UI needs inline styles."""

PAGE: Final = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>ampcore</title>
<link rel="icon" href="{ASSETS}/favicon.png">
<link rel="stylesheet" href="{ASSETS}/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="{ASSETS}/swagger-ui-bundle.js"></script>
<script src="/api/v1/docs/start.js"></script>
</body>
</html>
"""
# The URL of the page may contain user and token, and so would a relative URL, which fetch refuses.
# The origin contains neither.
START: Final = """SwaggerUIBundle({
  url: window.location.origin + "/api/v1/openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  persistAuthorization: true,
  presets: [SwaggerUIBundle.presets.apis],
});
"""


def assets() -> StaticFiles:
    """The files of Swagger UI, from the package fastapi_offline."""
    return StaticFiles(directory=str(files("fastapi_offline") / "static"))


@router.get("/openapi.json")
async def document(request: Request) -> JSONResponse:
    """The OpenAPI document."""
    return JSONResponse(request.app.openapi())


@router.get("/docs")
async def page() -> HTMLResponse:
    """Swagger UI."""
    return HTMLResponse(PAGE, headers={"Content-Security-Policy": POLICY})


@router.get("/docs/start.js")
async def start() -> Response:
    """The script that starts Swagger UI; a separate file, since inline scripts are forbidden."""
    return Response(START, media_type="text/javascript")
