"""The dashboard's static files as the API serves them; tests/e2e/dashboard tests the page."""

import gzip

import pytest
from fastapi import FastAPI

from server import dashboard

SCRIPT = "console.log('ampcore');" * 100


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: nothing here depends on it."""
    return sqlite_url


@pytest.fixture
def built(test_server, tmp_path):
    """A client of an application that serves a small built dashboard."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html><title>ampcore</title>")
    (tmp_path / "assets" / "index-4f2a.js").write_text(SCRIPT)
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    dashboard.install(app, tmp_path)
    test_server.app = app
    return test_server.anonymous


def test_the_page_has_a_strict_content_security_policy_and_is_revalidated(built):
    answer = built.get("/")
    assert answer.status_code == 200
    assert "<title>ampcore</title>" in answer.text
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert answer.headers["Cache-Control"] == "no-cache"
    again = built.get("/", headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == 304
    assert "Content-Security-Policy" in again.headers


def test_files_with_a_hash_in_their_name_are_immutable_and_compressed(built):
    with built.stream("GET", "/assets/index-4f2a.js", headers={"Accept-Encoding": "gzip"}) as sent:
        assert sent.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert sent.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(b"".join(sent.iter_raw())).decode() == SCRIPT


@pytest.mark.parametrize("path", ["nothing.js", "../index.html", "%2e%2e/index.html"])
def test_only_files_of_the_dashboard_are_served(built, path):
    assert built.get(f"/assets/{path}").status_code == 404


def test_without_a_built_dashboard_the_page_says_how_to_build_it(test_server, tmp_path):
    test_server.app = FastAPI()
    dashboard.install(test_server.app, tmp_path / "nothing")
    answer = test_server.anonymous.get("/")
    assert answer.status_code == 404
    assert "make install" in answer.text
    assert "/api/v1/docs" in answer.text


def test_only_the_page_and_its_assets_need_no_token(api):
    assert api.anonymous.get("/").headers["Content-Type"].startswith("text/html")
    assert api.anonymous.get("/assets/nothing.js").status_code == 404
    assert api.anonymous.post("/", json={}).status_code == 401
    assert api.anonymous.get("/assetsnothing").status_code == 401
    assert api.anonymous.get("/api/v1/jobs").status_code == 401
