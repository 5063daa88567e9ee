"""Permissions: every route with every kind of principal; a route without a row here fails."""

from datetime import UTC, datetime

import pytest
from fastapi.routing import iter_route_contexts
from sqlalchemy import update

from ampspec.api.roles import Grant
from ampspec.jobs import State
from server.http.access.auth_middleware import (
    DASHBOARD_ASSETS,
    DASHBOARD_PATH,
    PUBLIC_PATHS,
    SIGN_IN,
    SIGN_ON_PATHS,
)
from server.http.access.rate_limit import RateLimit
from store import workers
from store.access import people, person_sessions, tokens
from store.clock import from_now
from store.files import dataset_uploads
from store.jobs import jobs
from store.notifications import subscriptions
from store.tables import Token
from tests.tables import every_row

PUBLIC = "health and sign-in: no token needed"
ANYONE = "any valid token"
PROJECT_READ = "any token of the job's project, or an admin"
PROJECT_WRITE = "a member of the job's project, or an admin"
DATASET_READ = "any token of the dataset's, study's or model's project, or an admin"
DATASET_WRITE = "a member of the dataset's, study's or model's project, or an admin"
MEMBER = "a member or an admin"
ADMIN = "an admin"
ADMINS = "an admin, of all projects or of one"
ADMIN_OF_PROJECT = "an admin of all projects or of this one"
ADMIN_OF_TOKEN = "an admin of all projects or of the token's"
NO_TOKEN = "a signed-in person: tests/server/sign_on"

JOB = "/api/v1/jobs/{job_id}"
DATASET = "/api/v1/datasets/{name}"
RUN = "/api/v1/runs/{job_id}"
FILE = "/api/v1/files/{kind}/{sha256}"
STUDY = "/api/v1/studies/{study_id}"
NOTIFICATION = "/api/v1/notifications/{subscription_id}"
RETENTION = "/api/v1/projects/{name}/retention"
MODEL = "/api/v1/registered-models/{name}"
VERSION = f"{MODEL}/versions/{{version}}"
ALIAS = f"{MODEL}/aliases/{{alias}}"
ROUTES = {
    ("GET", "/"): PUBLIC,
    ("GET", "/assets"): PUBLIC,
    ("GET", "/healthz"): PUBLIC,
    ("GET", "/readyz"): PUBLIC,
    ("GET", "/metrics"): ANYONE,
    ("GET", "/api/v1/version"): ANYONE,
    ("GET", "/api/v1/openapi.json"): ANYONE,
    ("GET", "/api/v1/docs"): ANYONE,
    ("GET", "/api/v1/docs/start.js"): ANYONE,
    ("GET", "/api/v1/docs/assets"): ANYONE,
    ("GET", "/api/v1/models"): ANYONE,
    ("GET", "/api/v1/catalog/models"): ANYONE,
    ("GET", "/api/v1/layers"): ANYONE,
    ("GET", "/api/v1/catalog/layers"): ANYONE,
    ("GET", "/api/v1/data-kinds"): ANYONE,
    ("GET", "/api/v1/catalog/data-kinds"): ANYONE,
    ("GET", "/api/v1/losses"): ANYONE,
    ("GET", "/api/v1/catalog/losses"): ANYONE,
    ("GET", "/api/v1/metrics"): ANYONE,
    ("GET", "/api/v1/catalog/metrics"): ANYONE,
    ("GET", "/api/v1/datasets"): ANYONE,
    ("GET", DATASET): DATASET_READ,
    ("DELETE", DATASET): DATASET_WRITE,
    ("GET", f"{DATASET}/versions"): DATASET_READ,
    ("GET", f"{DATASET}/versions/{{number}}"): DATASET_READ,
    ("GET", f"{DATASET}/versions/{{number}}/content"): DATASET_READ,
    ("DELETE", f"{DATASET}/versions/{{number}}"): DATASET_WRITE,
    ("POST", f"{DATASET}/uploads"): MEMBER,
    ("GET", f"{DATASET}/uploads/{{upload_id}}"): DATASET_READ,
    ("PATCH", f"{DATASET}/uploads/{{upload_id}}"): DATASET_WRITE,
    ("DELETE", f"{DATASET}/uploads/{{upload_id}}"): DATASET_WRITE,
    ("POST", f"{DATASET}/uploads/{{upload_id}}/complete"): DATASET_WRITE,
    ("PUT", DATASET): MEMBER,  # last: it creates the dataset in the project of the stranger
    ("GET", FILE): ANYONE,
    ("GET", f"{FILE}/content"): ANYONE,
    ("PUT", FILE): MEMBER,
    ("GET", "/api/v1/files"): ANYONE,
    ("DELETE", FILE): MEMBER,
    ("GET", "/api/v1/registered-models"): ANYONE,
    ("GET", MODEL): DATASET_READ,
    ("PATCH", MODEL): DATASET_WRITE,
    ("GET", f"{MODEL}/history"): DATASET_READ,
    ("POST", f"{MODEL}/versions"): DATASET_WRITE,
    ("GET", f"{MODEL}/versions"): DATASET_READ,
    ("GET", VERSION): DATASET_READ,
    ("PATCH", VERSION): DATASET_WRITE,
    ("GET", f"{VERSION}/card"): DATASET_READ,
    ("GET", f"{VERSION}/files/{{file_format}}"): DATASET_READ,
    ("DELETE", f"{MODEL}/versions/{{number}}"): DATASET_WRITE,
    ("POST", f"{MODEL}/versions/{{number}}/undelete"): DATASET_WRITE,
    ("PUT", ALIAS): DATASET_WRITE,
    ("DELETE", ALIAS): DATASET_WRITE,
    ("POST", f"{ALIAS}/promote"): DATASET_WRITE,
    ("DELETE", MODEL): DATASET_WRITE,
    ("POST", "/api/v1/studies"): MEMBER,
    ("POST", "/api/v1/studies/estimate"): MEMBER,
    ("GET", "/api/v1/studies"): ANYONE,
    ("GET", STUDY): DATASET_READ,
    ("GET", f"{STUDY}/report"): DATASET_READ,
    ("POST", f"{STUDY}/cancel"): DATASET_WRITE,
    ("DELETE", STUDY): DATASET_WRITE,
    ("POST", "/api/v1/notifications"): MEMBER,
    ("GET", "/api/v1/notifications"): MEMBER,
    ("GET", NOTIFICATION): DATASET_WRITE,
    ("PATCH", NOTIFICATION): DATASET_WRITE,
    ("DELETE", NOTIFICATION): DATASET_WRITE,
    ("POST", f"{NOTIFICATION}/rotate"): DATASET_WRITE,
    ("GET", f"{NOTIFICATION}/deliveries"): DATASET_WRITE,
    ("POST", f"{NOTIFICATION}/test"): DATASET_WRITE,
    ("POST", f"{NOTIFICATION}/resend"): DATASET_WRITE,
    ("POST", f"{NOTIFICATION}/deliveries/{{delivery_id}}/resend"): DATASET_WRITE,
    ("GET", "/api/v1/policies"): ANYONE,
    ("GET", "/api/v1/catalog/policies"): ANYONE,
    ("GET", "/api/v1/optimizers"): ANYONE,
    ("GET", "/api/v1/catalog/optimizers"): ANYONE,
    ("GET", "/api/v1/workers"): ANYONE,
    ("GET", "/api/v1/workers/{worker_id}"): ANYONE,
    ("POST", "/api/v1/workers/{worker_id}/drain"): ADMIN,
    ("POST", "/api/v1/session"): PUBLIC,
    ("GET", "/api/v1/session"): ANYONE,
    ("PATCH", "/api/v1/session"): NO_TOKEN,
    ("PUT", "/api/v1/session/activity"): NO_TOKEN,
    ("DELETE", "/api/v1/session"): ANYONE,
    ("GET", "/api/v1/sign-in"): PUBLIC,
    ("GET", "/api/v1/sign-in/start"): PUBLIC,
    ("GET", "/api/v1/sign-in/callback"): PUBLIC,
    ("GET", "/api/v1/people"): ADMIN,
    ("DELETE", "/api/v1/people/{person_id}"): ADMIN,
    ("DELETE", "/api/v1/people/{person_id}/sessions/{session_id}"): ADMIN,
    ("GET", "/api/v1/tokens"): ADMINS,
    ("POST", "/api/v1/tokens"): ADMIN_OF_PROJECT,
    ("POST", "/api/v1/tokens/{token_id}/rotate"): ADMIN_OF_TOKEN,
    ("DELETE", "/api/v1/tokens/{token_id}"): ADMIN_OF_TOKEN,
    ("GET", "/api/v1/projects"): ADMINS,
    ("PUT", "/api/v1/projects/{name}"): ADMIN,
    ("PATCH", "/api/v1/projects/{name}"): ADMIN,
    ("GET", RETENTION): DATASET_READ,
    ("PUT", RETENTION): ADMIN_OF_PROJECT,
    ("POST", f"{RETENTION}/preview"): ADMIN_OF_PROJECT,
    ("DELETE", RETENTION): ADMIN_OF_PROJECT,
    ("GET", "/api/v1/audit"): ADMINS,
    ("POST", "/api/v1/jobs/validate"): ANYONE,
    ("POST", "/api/v1/jobs"): MEMBER,
    ("POST", "/api/v1/jobs/batch"): MEMBER,
    ("POST", "/api/v1/jobs/cancel"): MEMBER,
    ("POST", "/api/v1/jobs/delete"): MEMBER,
    ("POST", "/api/v1/jobs/label"): MEMBER,
    ("GET", "/api/v1/jobs"): ANYONE,
    ("GET", JOB): PROJECT_READ,
    ("PATCH", JOB): PROJECT_WRITE,
    ("DELETE", JOB): PROJECT_WRITE,
    ("POST", f"{JOB}/restore"): PROJECT_WRITE,
    ("POST", f"{JOB}/cancel"): PROJECT_WRITE,
    ("POST", f"{JOB}/pause"): PROJECT_WRITE,
    ("POST", f"{JOB}/resume"): PROJECT_WRITE,
    ("POST", f"{JOB}/retry"): PROJECT_WRITE,
    ("POST", f"{JOB}/clone"): PROJECT_WRITE,
    ("POST", f"{JOB}/extend"): PROJECT_WRITE,
    ("POST", f"{JOB}/profile"): PROJECT_WRITE,
    ("POST", f"{JOB}/explanations"): PROJECT_WRITE,
    ("GET", f"{JOB}/explanations"): PROJECT_READ,
    ("GET", f"{JOB}/explanations/cost"): PROJECT_READ,
    ("GET", f"{JOB}/explanations/{{explanation_id}}"): PROJECT_READ,
    ("GET", f"{JOB}/ranges"): PROJECT_READ,
    ("POST", "/api/v1/runs"): MEMBER,
    ("POST", f"{RUN}/steps"): PROJECT_WRITE,
    ("POST", f"{RUN}/finish"): PROJECT_WRITE,
    ("PUT", f"{RUN}/images/{{entry}}"): PROJECT_WRITE,
    ("GET", f"{JOB}/images"): PROJECT_READ,
    ("POST", f"{RUN}/resume"): PROJECT_WRITE,
    ("GET", f"{JOB}/attempts"): PROJECT_READ,
    ("GET", f"{JOB}/allocations"): PROJECT_READ,
    ("GET", f"{JOB}/steps"): PROJECT_READ,
    ("GET", f"{JOB}/evaluations"): PROJECT_READ,
    ("GET", f"{JOB}/events"): PROJECT_READ,
    ("GET", f"{JOB}/logs"): PROJECT_READ,
    ("GET", f"{JOB}/stream"): PROJECT_READ,
    ("GET", f"{JOB}/artifacts"): PROJECT_READ,
    ("GET", "/api/v1/compare"): PROJECT_READ,
    ("GET", f"{JOB}/artifacts/{{path:path}}"): PROJECT_READ,
}

SPEC = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}
STUDY_REQUEST = {"kind": "precision", "spec": SPEC}
BODIES = {
    ("POST", f"{JOB}/extend"): {"epochs": 1},
    ("POST", f"{JOB}/profile"): {"steps": 1},
    ("POST", f"{JOB}/explanations"): {"step": 0},
    ("POST", "/api/v1/studies"): STUDY_REQUEST,
    ("POST", "/api/v1/studies/estimate"): STUDY_REQUEST,
    ("POST", "/api/v1/jobs"): SPEC,
    ("POST", "/api/v1/jobs/batch"): {"specs": [SPEC]},
    ("POST", "/api/v1/jobs/validate"): SPEC,
    ("PATCH", JOB): {"name": "new"},
    ("POST", "/api/v1/runs"): {},
    ("POST", f"{RUN}/steps"): {},
    ("POST", f"{RUN}/finish"): {"state": "succeeded", "entries": 0},
    ("POST", "/api/v1/notifications"): {"target": "https://receiver.example/"},
    ("PATCH", NOTIFICATION): {"name": "new"},
    ("POST", f"{NOTIFICATION}/resend"): {"since": "2026-01-01T00:00:00Z"},
    ("POST", "/api/v1/tokens"): {"name": "new"},
    ("PATCH", "/api/v1/session"): {"project": "default"},
    ("PUT", "/api/v1/projects/{name}"): {},
    ("PATCH", "/api/v1/projects/{name}"): {},
    ("PUT", RETENTION): {"rules": []},
    ("POST", f"{RETENTION}/preview"): {"rules": []},
    ("PATCH", MODEL): {},
    ("POST", f"{MODEL}/versions"): {"job_id": "0123456789ab"},
    ("PATCH", VERSION): {},
    ("PUT", ALIAS): {"version": 1},
    ("POST", f"{ALIAS}/promote"): {"version": 1, "assertions": ["val_loss < 1"]},
    ("POST", f"{DATASET}/uploads"): {"file": "birds.npz", "size_bytes": 1},
}

MEMBERS = ("viewer", "member", "stranger")
UNAUTHENTICATED = ("nobody", "a guess", "expired", "revoked")
ELSEWHERE = {"stranger": 404, "admin elsewhere": 404}
ALLOWED = "allowed"
EXPECTED = {
    PUBLIC: {},
    ANYONE: dict.fromkeys(UNAUTHENTICATED, 401),
    PROJECT_READ: {**dict.fromkeys(UNAUTHENTICATED, 401), **ELSEWHERE},
    PROJECT_WRITE: {**dict.fromkeys(UNAUTHENTICATED, 401), "viewer": 403, **ELSEWHERE},
    DATASET_READ: {**dict.fromkeys(UNAUTHENTICATED, 401), **ELSEWHERE},
    DATASET_WRITE: {**dict.fromkeys(UNAUTHENTICATED, 401), "viewer": 403, **ELSEWHERE},
    MEMBER: {**dict.fromkeys(UNAUTHENTICATED, 401), "viewer": 403},
    ADMIN: {
        **dict.fromkeys(UNAUTHENTICATED, 401),
        **dict.fromkeys((*MEMBERS, "project admin", "admin elsewhere"), 403),
    },
    ADMINS: {**dict.fromkeys(UNAUTHENTICATED, 401), **dict.fromkeys(MEMBERS, 403)},
    ADMIN_OF_PROJECT: {
        **dict.fromkeys(UNAUTHENTICATED, 401),
        **dict.fromkeys((*MEMBERS, "admin elsewhere"), 403),
    },
    NO_TOKEN: {
        **dict.fromkeys(UNAUTHENTICATED, 401),
        **dict.fromkeys((*MEMBERS, "project admin", "admin elsewhere", "admin"), 403),
    },
    ADMIN_OF_TOKEN: {
        **dict.fromkeys(UNAUTHENTICATED, 401),
        **dict.fromkeys(MEMBERS, 403),
        "admin elsewhere": 404,
    },
}
"""The status of a refusal by role; all other roles are allowed."""


def expired(session):
    secret = tokens.create(session, "expired", role="admin", expires_at=datetime.now(UTC))
    ends = update(Token).where(Token.digest == tokens.digest_of(secret))
    session.execute(ends.values(expires_at=from_now(-1.0)))
    return secret


def revoked(session):
    secret = tokens.create(session, "revoked", role="admin")
    tokens.revoke(session, tokens.get_by_secret(session, secret))
    return secret


SECRETS = {
    "nobody": lambda session: None,
    "a guess": lambda session: "amp_" + "x" * 43,
    "expired": expired,
    "revoked": revoked,
    "viewer": lambda session: tokens.create(session, "viewer", role="viewer"),
    "member": lambda session: tokens.create(session, "member"),
    "stranger": lambda session: tokens.create(session, "stranger", project="elsewhere"),
    "project admin": lambda session: tokens.create(session, "pa", scopes=["project:admin"]),
    "admin elsewhere": lambda session: tokens.create(
        session, "pa elsewhere", scopes=["project:admin"], project="another"
    ),
    "admin": lambda session: tokens.create(session, "root", role="admin", project="elsewhere"),
}
"""The stranger is a member of a project that is not the job's, and "admin elsewhere" its admin."""


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: nothing here depends on it."""
    return sqlite_url


def every_route(app):
    for route in iter_route_contexts(app.routes):
        for method in route.methods or {"GET"}:
            yield method, route.path


def test_the_table_has_every_route(api):
    assert set(every_route(api.app)) == set(ROUTES)


def test_the_public_routes_in_the_table_are_those_of_the_middleware():
    public = {key for key, who in ROUTES.items() if who is PUBLIC}
    assert public == {
        ("GET", path) for path in (*PUBLIC_PATHS, *SIGN_ON_PATHS, DASHBOARD_PATH, DASHBOARD_ASSETS)
    } | {SIGN_IN}


def with_values(path):
    """The path with values that need not exist."""
    image = f"0?name=a&step=0&sha256={'0' * 64}"
    return path.replace("{path:path}", "a/b.keras").replace("{entry}", image)


@pytest.fixture
def address_of(api, make_job):
    """The path of a route with the ids of existing objects."""

    def fill(path):
        if "{job_id}" in path:
            path = with_values(path).replace("{job_id}", make_job().id)
        with api.database.write() as session:
            if path.endswith("/stream"):  # it ends only with its job
                jobs.request_cancel(session, path.split("/")[-2])
            if "{token_id}" in path:
                secret = tokens.create(session, "to be revoked")
                path = path.replace("{token_id}", tokens.get_by_secret(session, secret).id)
            if "{person_id}" in path:
                identity = people.Identity("https://issuer.example", "sub", "Ann", None, ())
                grants = [Grant("default", "member")]
                person = people.sign_in(session, identity, grants, access_s=60.0)
                lifetime = person_sessions.Lifetime(60.0, 60.0)
                browser = person_sessions.Browser(None, None)
                _, row = person_sessions.create(session, person, browser, lifetime)
                path = path.replace("{person_id}", person.id).replace("{session_id}", row.id)
            if "{worker_id}" in path:
                facts = {"hostname": "box", "pid": 1, "slots": 1, "version": "0", "queues": []}
                workers.register(session, worker_id := tokens.secrets.token_hex(6), **facts)
                path = path.replace("{worker_id}", worker_id)
            if "{upload_id}" in path:
                new = dataset_uploads.NewUpload("default", "file", 1)
                upload = dataset_uploads.start(session, "default", new, None)
                path = path.replace("{upload_id}", upload.id)
            if "{subscription_id}" in path:
                values = {"project": "default", "name": "n", "types": [], "channel": "webhook"}
                target = "https://receiver.example/"
                subscription = subscriptions.create(session, target=target, **values)
                path = path.replace("{subscription_id}", subscription.id)
                path = path.replace("{delivery_id}", "0" * 12)
        if path.endswith("/compare"):
            path += f"?jobs={make_job().id},{make_job().id}"
        if "{study_id}" in path:
            study = api.client.post("/api/v1/studies", json=STUDY_REQUEST).json()
            path = path.replace("{study_id}", study["id"])
        path = path.replace("{version}", "latest").replace("{alias}", "champion")
        path = path.replace("{file_format}", "keras")
        path = path.replace("{kind}", "weights").replace("{sha256}", "0" * 64)
        return path.replace("{name}", "default").replace("{number}", "1")

    return fill


@every_row("who", SECRETS)
@pytest.mark.quick
def test_every_route_allows_exactly_the_roles_in_the_table(api, address_of, who):
    # The guesses come from one address.
    api.app.state.services.authenticator.failures = RateLimit("1000000/second")
    with api.database.write() as session:
        secret = SECRETS[who](session)
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    headers["Upload-Offset"] = "0"
    for (method, path), needed in ROUTES.items():
        body = BODIES.get((method, path))
        answer = api.anonymous.request(method, address_of(path), headers=headers, json=body)
        context = (who, method, path, answer.text)
        expected = EXPECTED[needed].get(who, ALLOWED)
        if expected == ALLOWED:
            assert answer.status_code not in (401, 403), context
            assert answer.status_code < 500 or path == "/readyz", context
            if path != f"{MODEL}/versions":  # the job in its body does not exist
                assert "There is no job" not in answer.text, context
        else:
            assert answer.status_code == expected, context
            assert answer.headers["Content-Type"] == "application/problem+json", context


def test_a_job_of_another_project_is_answered_like_a_missing_job(api, make_job, client_with_role):
    stranger = client_with_role(project="elsewhere")
    for (method, path), needed in ROUTES.items():
        if needed in (PROJECT_READ, PROJECT_WRITE):
            body, job_id = BODIES.get((method, path)), make_job().id
            address = with_values(path)
            if path.endswith("/compare"):
                address += "?jobs={job_id}," + make_job().id
            theirs = stranger.request(method, address.replace("{job_id}", job_id), json=body)
            other = address.replace("{job_id}", "0123456789ab")
            nowhere = api.client.request(method, other, json=body)
            assert theirs.status_code == nowhere.status_code == 404, (method, path)
            assert theirs.json()["detail"] == nowhere.json()["detail"].replace(
                "0123456789ab", job_id
            ), (method, path)


def test_no_route_finds_a_job_in_the_trash_but_the_one_that_restores_it(api, make_job):
    job_id = make_job(State.SUCCEEDED).id
    assert api.client.delete(f"/api/v1/jobs/{job_id}").status_code == 204
    for (method, path), needed in ROUTES.items():
        if needed in (PROJECT_READ, PROJECT_WRITE) and not path.endswith("/restore"):
            address = with_values(path).replace("{job_id}", job_id)
            if path.endswith("/compare"):
                address += f"?jobs={job_id},{make_job().id}"
            answer = api.client.request(method, address, json=BODIES.get((method, path)))
            assert answer.status_code == 404, (method, path, answer.text)
            assert "explanation" in path or job_id in answer.json()["detail"], (method, path)


def test_the_list_of_jobs_has_only_those_the_token_may_see(api, make_job, client_with_role):
    here, there = make_job(), make_job(project="elsewhere")

    def seen(client):
        return {job["id"] for job in client.get("/api/v1/jobs").json()["items"]}

    assert seen(client_with_role(role="viewer")) == {here.id}
    assert seen(client_with_role(project="elsewhere")) == {there.id}
    assert seen(client_with_role(role="admin", project="elsewhere")) == {here.id, there.id}


def test_a_member_submits_into_its_own_project(client_with_role):
    job = client_with_role(project="vision").post("/api/v1/jobs", json=SPEC).json()
    assert (job["project"], job["created_by"]) == ("vision", "member of vision")


def test_openapi_documents_the_auth_errors_of_every_route(api):
    paths = api.app.openapi()["paths"]
    former = {path.replace("/catalog", "") for _, path in ROUTES if "/catalog/" in path}
    hidden = {DASHBOARD_PATH, DASHBOARD_ASSETS} | former
    for (method, path), needed in ROUTES.items():
        if "docs" in path or "openapi" in path or path in hidden:
            continue
        operation = paths[path.replace(":path", "")][method.lower()]
        if path not in PUBLIC_PATHS:
            assert {"401", "403", "429"} <= set(operation["responses"]), (method, path)
        assert (operation.get("security") == []) == (needed is PUBLIC)
