"""The OpenAPI document: complete, with the spec's schema, the errors and the token."""

from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from ampcore.spec import JobSpec
from server.views import Problem, ProblemDetail

REF: Final = "#/components/schemas/{model}"
DESCRIPTION: Final = """Mixed-precision training jobs: post a spec, then read back every step.

To try an operation, press **Authorize** and paste the token: signing in to this page only lets you
read it."""
TAGS: Final = [
    {"name": "jobs", "description": "Post, list, read and cancel training jobs."},
    {"name": "steps", "description": "Every step: loss, loss scale, skipped, throughput."},
    {"name": "events", "description": "What happened to a job beside its steps."},
    {"name": "workers", "description": "Who trains here, and on what."},
    {"name": "catalog", "description": "What a spec may say."},
    {"name": "health", "description": "Is the server alive, ready, and which one is it."},
]
EXAMPLES: Final = {
    "small": {
        "summary": "The least: a model and data",
        "value": {"model": {"kind": "mlp"}, "data": {"kind": "digits"}},
    },
    "mixed_float16": {
        "summary": "A convolutional network in float16 with a dynamic loss scale",
        "value": {
            "name": "digits-fp16",
            "model": {"kind": "cnn", "filters": [32, 64], "dense": [128]},
            "data": {"kind": "digits", "batch_size": 256},
            "precision": {"policy": "mixed_float16"},
            "loss_scale": {"mode": "dynamic", "initial": 32768},
            "optimizer": {"kind": "adam", "learning_rate": 0.001},
            "train": {"epochs": 5},
        },
    },
}
SPEC_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "description": "The job spec. Unknown fields are an error.",
        "content": {
            "application/json": {
                "schema": {"$ref": REF.format(model="JobSpec")},
                "examples": EXAMPLES,
            }
        },
    }
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The failures that a route documents; 401, 500 and 503 are documented everywhere."""
    content = {"application/problem+json": {"schema": {"$ref": REF.format(model="Problem")}}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": content}
        for status in statuses
    }


def install(app: FastAPI) -> None:
    """Let the application tell of itself; the document is made once, when first asked for."""

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
    components["schemas"]["Job"]["properties"]["spec"] = {"$ref": REF.format(model="JobSpec")}
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"token": []}]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _complete(operation, is_open=not path.startswith("/api/"))
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    return document


def _schemas() -> dict[str, Any]:
    schemas: dict[str, Any] = {}
    for model in (JobSpec, Problem, ProblemDetail):
        schema = model.model_json_schema(ref_template=REF)
        schemas |= schema.pop("$defs", {})
        schemas[model.__name__] = schema
    return schemas


def _complete(operation: dict[str, Any], *, is_open: bool) -> None:
    """Add the failures that every route shares."""
    everywhere = problems(500) if is_open else problems(401, 422, 500, 503)
    responses = operation["responses"]
    responses |= {str(status): answer for status, answer in everywhere.items()}
    if is_open:
        operation["security"] = []
        responses.pop("422", None)
