"""The OpenAPI document and a page to read it on, which needs nothing from any other host."""

from importlib.resources import files

from fastapi import APIRouter, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.staticfiles import StaticFiles

router = APIRouter(include_in_schema=False)

ASSETS = "/api/v1/docs/assets"
POLICY = (
    "default-src 'self'; img-src 'self' data:; "
    "script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'"
)
"""The page starts Swagger UI in an inline script; nothing may come from elsewhere."""


def assets() -> StaticFiles:
    """The files of Swagger UI, out of the fastapi_offline package."""
    return StaticFiles(directory=str(files("fastapi_offline") / "static"))


@router.get("/openapi.json")
async def document(request: Request) -> JSONResponse:
    """The OpenAPI document."""
    return JSONResponse(request.app.openapi())


@router.get("/docs")
async def page() -> HTMLResponse:
    """Swagger UI."""
    html = get_swagger_ui_html(
        openapi_url="/api/v1/openapi.json",
        title="ampcore",
        swagger_js_url=f"{ASSETS}/swagger-ui-bundle.js",
        swagger_css_url=f"{ASSETS}/swagger-ui.css",
        swagger_favicon_url=f"{ASSETS}/favicon.png",
        swagger_ui_parameters={"persistAuthorization": True},
    )
    html.headers["Content-Security-Policy"] = POLICY
    return html
