"""The OpenAPI document: adds the job spec's schema, the errors and the authentication."""

from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute, iter_route_contexts

from ampspec.api.job.explanations import ExplanationRequest
from ampspec.api.job.jobs import CloneChanges, Extension, JobChanges, LabelChanges, ProfileRequest
from ampspec.api.problems import ErrorResponse, ProblemDetail
from ampspec.api.retention import RetentionChanges, RetentionPreviewRequest
from ampspec.api.tokens import RotationRequest
from ampspec.jobs import JobSpec
from ampspec.jobs.tracked import TrackedSpec
from server.http.access.auth_middleware import PUBLIC_PATHS
from server.http.access.session_cookie import COOKIE, PERSON_COOKIE, person_cookie_name
from server.http.request_body import REF, bodies_of
from server.request_bodies import STUDIES

DESCRIPTION: Final = """Mixed-precision training jobs: submit a spec, then read every step.

To try an operation, press **Authorize** and paste the token: the sign-in of this page only allows
reading it."""
TAGS: Final = [
    {"name": "jobs", "description": "Submit, list, read and change training jobs."},
    {"name": "runs", "description": "Runs that are trained elsewhere and tracked here."},
    {
        "name": "steps",
        "description": "The telemetry of every step: loss, loss scale, skipped, step time.",
    },
    {"name": "stream", "description": "Steps, events and logs of a job as they are written."},
    {"name": "compare", "description": "Comparison of jobs."},
    {"name": "studies", "description": "Questions over several jobs, and their answers."},
    {
        "name": "notifications",
        "description": "Messages about jobs, studies and workers: webhooks, services, e-mail.",
    },
    {"name": "events", "description": "The event log of a job."},
    {"name": "logs", "description": "The log of a job's processes."},
    {"name": "artifacts", "description": "Checkpoints, models, reports: list and download."},
    {"name": "datasets", "description": "Files of data with numbered versions: upload and read."},
    {"name": "workers", "description": "The workers and their hardware."},
    {"name": "catalog", "description": "The kinds and policies that a spec can use."},
    {
        "name": "access",
        "description": "Tokens, sessions, projects and their quotas, the audit log.",
    },
    {"name": "health", "description": "Liveness, readiness, metrics and version."},
]
SECURITY: Final[dict[str, Any]] = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token, from `ampserver token create` or POST /tokens.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": COOKIE,
        "description": "The cookie of POST /session; changes require an Origin of this server.",
    },
    "person": {
        "type": "apiKey",
        "in": "cookie",
        "name": person_cookie_name(secure=True),
        "description": "The cookie of GET /sign-in/callback, as that of POST /session; without TLS "
        f"it is called {PERSON_COOKIE}.",
    },
}
TEXT: Final = {"type": "string"}
IDEMPOTENCY_KEY_PARAMETER: Final[dict[str, Any]] = {
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "description": "A unique text of your choice per request: a repeat with the same key "
            "and body within 24 hours returns the same response and is not applied again.",
            "schema": {**TEXT, "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
        }
    ]
}
BYTES: Final[dict[str, Any]] = {
    "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
}
FILE_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": BYTES, "description": "The file; its ETag is its SHA-256."},
    206: {"content": BYTES, "description": "The bytes that `Range` requests."},
    304: {"description": "The client already has this version."},
}
BYTES_BODY: Final[dict[str, Any]] = {
    "requestBody": {"required": True, "description": "Bytes of the file.", "content": BYTES}
}
NO_IDEMPOTENCY_KEY: Final = (
    ("/session", ("post", "delete")),
    ("/session/activity", ("put",)),
    ("/uploads/{upload_id}", ("patch", "delete")),
    ("/uploads/{upload_id}/complete", ("post",)),
    ("/datasets/{name}", ("put",)),
    ("/files/{kind}/{sha256}", ("put",)),
    ("/runs/{job_id}/steps", ("post",)),
)
"""Changing routes without the header Idempotency-Key: a repeat has the same effect anyway."""
READ_ONLY: Final = ("/validate", "/estimate")
"""The ends of the paths of POST routes that change nothing."""
ETAG_HEADER: Final = {"ETag": {"description": "Send it back as If-None-Match.", "schema": TEXT}}
ETAG_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"headers": ETAG_HEADER},
    304: {
        "description": "Nothing has changed since the response with this ETag.",
        "headers": ETAG_HEADER,
    },
}
"""Responses of a route with an ETag, besides its `response_model`."""
CREATED_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    201: {
        "headers": {
            "Location": {"description": "The path of the job.", "schema": TEXT, "required": True},
            "Idempotency-Replayed": {
                "description": "true: the stored response to the first request with this key.",
                "schema": {"type": "string", "enum": ["true"]},
            },
        }
    }
}


def accepted_response(model: Any, what: str) -> dict[int | str, dict[str, Any]]:
    """The 202 response of a route that asks a worker to `what` the job."""
    return {202: {"model": model, "description": f"Its worker was asked to {what} it."}}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors of one route; `_add_shared_failures` adds those of all routes."""
    content = {"application/problem+json": {"schema": {"$ref": REF.format(model="ErrorResponse")}}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": content}
        for status in statuses
    }


def install(app: FastAPI) -> None:
    """Replace the application's `openapi` method; the document is built at the first request."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # the documented way to extend it


def _document(app: FastAPI) -> dict[str, Any]:
    document: dict[str, Any] = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        tags=TAGS,
    )
    components = document["components"]
    components["schemas"].update(_schemas())
    spec = {"anyOf": [{"$ref": REF.format(model=name)} for name in ("JobSpec", "TrackedSpec")]}
    components["schemas"]["Job"]["properties"]["spec"] = spec
    listed = components["schemas"]["ListedJob"]["properties"]["spec"]
    listed["anyOf"] = [*spec["anyOf"], {"type": "null"}]
    components["securitySchemes"] = SECURITY
    document["security"] = [{name: []} for name in SECURITY]
    _add_bodies(document, app)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _add_shared_failures(operation, is_open=path in PUBLIC_PATHS)
            if method != "get" and not path.endswith(READ_ONLY):
                _add_change_failures(operation, has_key=_has_key(path, method))
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    return document


def _add_bodies(document: dict[str, Any], app: FastAPI) -> None:
    """Add the bodies that routes read through dependencies (`server.http.request_body`)."""
    for route in iter_route_contexts(app.routes):
        if not isinstance(route.original_route, APIRoute):
            continue
        for body in bodies_of(route.dependant):
            for method in route.methods or ():
                operation = document["paths"][route.path_format][method.lower()]
                operation["requestBody"] = body.openapi


def _schemas() -> dict[str, Any]:
    schemas: dict[str, Any] = {}
    for model in (
        *(JobSpec, TrackedSpec, JobChanges, LabelChanges, CloneChanges, Extension, ProfileRequest),
        *(RetentionChanges, RetentionPreviewRequest, RotationRequest),
        *(ExplanationRequest, ErrorResponse, ProblemDetail, *STUDIES),
    ):
        schema = model.model_json_schema(ref_template=REF)
        schemas |= schema.pop("$defs", {})
        schemas[model.__name__] = schema
    return schemas


def _add_shared_failures(operation: dict[str, Any], *, is_open: bool) -> None:
    """Add the errors that every route can return."""
    everywhere = problems(413, 422, 431, 500)
    if not is_open:
        everywhere |= problems(401, 403, 429, 503)
    if "requestBody" in operation:
        everywhere |= problems(400, 415)
    operation["responses"] |= {str(status): response for status, response in everywhere.items()}
    if is_open:
        operation["security"] = []


def _has_key(path: str, method: str) -> bool:
    return not any(
        path.endswith(ending) and method in methods for ending, methods in NO_IDEMPOTENCY_KEY
    )


def _add_change_failures(operation: dict[str, Any], *, has_key: bool) -> None:
    """Add what all changing routes share: Idempotency-Key, and the error of a lost COMMIT."""
    operation["responses"] |= {str(status): response for status, response in problems(504).items()}
    if has_key:
        parameters = operation.setdefault("parameters", [])
        names = {parameter["name"] for parameter in parameters}
        parameters += [
            parameter
            for parameter in IDEMPOTENCY_KEY_PARAMETER["parameters"]
            if parameter["name"] not in names
        ]
