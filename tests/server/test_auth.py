import base64

import pytest
from fastapi.routing import iter_route_contexts

OPEN = {"/healthz", "/readyz"}
BEARER = 'Bearer realm="ampcore"'


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: nothing here depends on it."""
    return sqlite_url


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def every_route(app):
    for route in iter_route_contexts(app.routes):
        path = route.path.replace("{job_id}", "0123456789ab")
        for method in route.methods or {"GET"}:
            yield method, path


def test_no_route_but_health_answers_without_a_token(api):
    routes = set(every_route(api.app))
    assert len(routes) > 15
    for method, path in routes:
        answer = api.anonymous.request(method, path)
        if path in OPEN:
            assert answer.status_code != 401
        else:
            assert answer.status_code == 401, (method, path)
            assert answer.json()["code"] == "unauthorized"
            assert BEARER in answer.headers["WWW-Authenticate"]


def test_a_path_that_is_not_there_is_no_secret_to_tell_either(api):
    assert api.anonymous.get("/api/v1/nothing").status_code == 401


@pytest.mark.parametrize(
    "header", ["Bearer wrong", "Bearer", "wrong", "", "Basic xyz", "Bearer \u00fc"]
)
def test_what_is_no_token_opens_nothing(api, header):
    answer = api.anonymous.get("/api/v1/jobs", headers={"Authorization": header.encode("latin-1")})
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith(BEARER)


def test_the_word_bearer_may_be_written_in_any_case(api):
    headers = {"Authorization": f"bEaReR {api.token}"}
    assert api.anonymous.get("/api/v1/jobs", headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["docs", "openapi.json", "docs/assets/swagger-ui.css"])
def test_a_browser_signs_in_to_the_pages_with_the_token_as_password(api, path):
    page = f"/api/v1/{path}"
    asked = api.anonymous.get(page)
    assert asked.status_code == 401
    schemes = [value.split()[0] for value in asked.headers.get_list("WWW-Authenticate")]
    assert schemes == ["Bearer", "Basic"]
    assert api.anonymous.get(page, auth=("anyone", api.token)).status_code == 200
    assert api.anonymous.get(page, auth=("", api.token)).status_code == 200
    assert api.anonymous.get(page, auth=(api.token, "wrong")).status_code == 401
    assert api.client.get(page).status_code == 200


def test_basic_opens_nothing_but_the_pages(api):
    headers = {"Authorization": basic("anyone", api.token)}
    assert api.anonymous.get("/api/v1/jobs", headers=headers).status_code == 401
    assert api.anonymous.post("/api/v1/docs", headers=headers).status_code == 401


@pytest.mark.parametrize("value", ["Basic", "Basic !!!", "Basic /w==", "Basic YQ=="])
def test_a_broken_basic_header_is_refused(api, value):
    answer = api.anonymous.get("/api/v1/docs", headers={"Authorization": value})
    assert answer.status_code == 401
