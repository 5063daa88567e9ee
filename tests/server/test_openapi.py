import re

import jsonschema
import pytest
from fastapi.routing import iter_route_contexts

from ampspec.jobs import JobSpec
from server.catalog.catalog import CLASSES
from server.http.access.auth_middleware import PUBLIC_PATHS, SIGN_IN, SIGN_ON_PATHS
from server.request_bodies import EXAMPLES


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: nothing here depends on it."""
    return sqlite_url


@pytest.fixture
def document(api):
    answer = api.client.get("/api/v1/openapi.json")
    assert answer.status_code == 200
    return answer.json()


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def references(node):
    if isinstance(node, dict):
        yield from ([node["$ref"]] if "$ref" in node else [])
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def test_every_reference_is_defined(document):
    for reference in references(document):
        prefix, name = reference.rsplit("/", 1)
        assert prefix == "#/components/schemas"
        assert name in document["components"]["schemas"], reference


def test_every_schema_is_valid(document):
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_route_is_documented_with_its_errors(api, document):
    described = {(method, path) for method, path, _ in operations(document)}
    hidden = re.compile(r"/api/v1/(docs|openapi\.json)|/$")
    former = {f"/api/v1/{name}" for name in (*CLASSES, "policies")}  # of version 0.5
    routes = {
        (method, route.path.replace(":path}", "}"))
        for route in iter_route_contexts(api.app.routes)
        for method in route.methods or ()
        if not hidden.match(route.path) and route.path not in former
    }
    assert described == routes
    for _, path, operation in operations(document):
        assert len(operation["summary"].split()) > 1
        assert operation["description"]
        assert operation["tags"]
        assert {"413", "422", "431", "500"} <= operation["responses"].keys()
        if path.startswith("/api/"):
            assert {"401", "403", "429", "503"} <= operation["responses"].keys()
        if "requestBody" in operation:
            assert {"400", "415"} <= operation["responses"].keys()
        if "{job_id}" in path:
            assert "404" in operation["responses"]
        for status, answer in operation["responses"].items():
            kinds = list(answer.get("content", ()))
            if status in ("204", "303", "304"):
                assert kinds == [], (path, status)
            elif status < "300":
                assert kinds, (path, status)
            else:
                assert kinds == ["application/problem+json"], (path, status)


def test_only_public_paths_and_sign_in_need_no_token(document):
    assert document["security"] == [{"token": []}, {"session": []}, {"person": []}]
    schemes = document["components"]["securitySchemes"]
    assert schemes["token"]["scheme"] == "bearer"
    assert (schemes["session"]["in"], schemes["session"]["name"]) == ("cookie", "ampcore_session")
    without_token = {
        (method, path)
        for method, path, operation in operations(document)
        if operation.get("security") == []
    }
    public = {("GET", path) for path in PUBLIC_PATHS | SIGN_ON_PATHS}
    assert without_token == public | {SIGN_IN}


def test_the_examples_are_valid_and_match_the_schema(document):
    body = document["paths"]["/api/v1/jobs"]["post"]["requestBody"]
    schema = {**document, **body["content"]["application/json"]["schema"]}
    for example in EXAMPLES.values():
        JobSpec.parse(example["value"])
        jsonschema.validate(example["value"], schema)


def test_responses_match_the_document(api, document, make_job, make_block):
    from ampspec.jobs import State
    from store import workers
    from store.telemetry import ingest

    def check(answer, path, method="get"):
        responses = document["paths"][path][method]["responses"]
        media_type = answer.headers["content-type"].partition(";")[0]
        content = responses[str(answer.status_code)]["content"][media_type]
        jsonschema.validate(answer.json(), {**document, **content["schema"]})

    job = make_job(State.RUNNING)
    with api.database.write() as session:
        ingest.append(session, job.id, 1, [make_block(0, 3, loss=float("nan"))], entries_written=0)
        facts = {"hostname": "h", "pid": 1, "slots": 1, "version": "1", "queues": ["default"]}
        workers.register(session, "w", **facts)
    one = "/api/v1/jobs/{job_id}"
    for path in (
        "version",
        "jobs",
        "workers",
        "catalog/models",
        "catalog/data-kinds",
        "catalog/losses",
        "catalog/metrics",
        "datasets",
        "catalog/policies",
        "catalog/optimizers",
    ):
        check(api.client.get(f"/api/v1/{path}"), f"/api/v1/{path}")
    for rest in ("", "/steps", "/events", "/attempts", "/allocations"):
        check(api.client.get(f"/api/v1/jobs/{job.id}{rest}"), one + rest)
        check(api.client.get(f"/api/v1/jobs/0123456789ab{rest}"), one + rest)
    check(api.client.get("/api/v1/jobs?limit=0"), "/api/v1/jobs")
    check(api.client.post("/api/v1/jobs", json=EXAMPLES["small"]["value"]), "/api/v1/jobs", "post")
    check(api.client.post("/api/v1/jobs", json={}), "/api/v1/jobs", "post")
    check(api.client.post(f"/api/v1/jobs/{job.id}/cancel"), f"{one}/cancel", "post")
    check(api.anonymous.get("/healthz"), "/healthz")


def test_the_docs_page_loads_only_files_of_this_server(api):
    page = api.client.get("/api/v1/docs")
    assert page.status_code == 200
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(loaded) == 4
    for address in loaded:
        assert address.startswith("/api/v1/docs/")
        assert api.anonymous.get(address, auth=("anyone", api.token)).status_code == 200
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "script-src" not in policy


def test_the_docs_page_requests_the_document_without_credentials_in_the_url(api):
    script = api.client.get("/api/v1/docs/start.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert 'url: window.location.origin + "/api/v1/openapi.json"' in script.text


def test_the_document_explains_how_to_authorize(document):
    assert "press **Authorize** and paste the token" in document["info"]["description"]
