import httpx
import pytest

import ampcore
from server import schema


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: the store has its own tests on both databases."""
    return sqlite_url


@pytest.fixture
def anyone(api):
    """A client without a token."""
    return api.anonymous


def test_the_server_is_alive_without_redis(api, anyone):
    api.dispatcher.gone = True
    assert anyone.get("/healthz").json() == {"status": "alive"}


def test_the_server_is_ready_when_all_parts_answer(anyone):
    answer = anyone.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ready"})


def test_without_redis_the_server_is_not_ready(api, anyone):
    api.dispatcher.gone = True
    answer = anyone.get("/readyz")
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    [part] = answer.json()["errors"]
    assert (part["pointer"], part["code"]) == ("/redis", "unreachable")


def test_with_another_schema_revision_the_server_is_not_ready(api, anyone, monkeypatch):
    revision = schema.HEAD
    monkeypatch.setattr(schema, "HEAD", "9999")
    answer = anyone.get("/readyz")
    assert answer.status_code == 503
    [part] = answer.json()["errors"]
    assert (part["pointer"], part["code"], part["received"]) == (
        "/database",
        "wrong_schema",
        revision,
    )
    assert "ampserver migrate" in part["expected"]


def test_without_an_artifacts_folder_the_server_is_not_ready(api, anyone):
    api.data_dir.write_text("no folder")
    answer = anyone.get("/readyz")
    assert answer.status_code == 503
    [part] = answer.json()["errors"]
    assert (part["pointer"], part["code"]) == ("/artifacts", "unreachable")
    assert str(api.data_dir) not in answer.text


def test_the_error_names_every_part_that_failed(api, anyone, monkeypatch):
    api.dispatcher.gone = True
    monkeypatch.setattr(schema, "HEAD", "9999")
    answer = anyone.get("/readyz")
    assert [part["pointer"] for part in answer.json()["errors"]] == ["/database", "/redis"]
    assert answer.json()["detail"] == "Not ready: database and redis."


def test_the_version_is_returned(api):
    assert api.client.get("/api/v1/version").json() == {
        "version": ampcore.__version__,
        "api": "v1",
        "schema": schema.HEAD,
    }


def test_the_error_names_an_unreachable_database(tmp_path, dispatcher):
    from server.app import create_app
    from server.settings import Settings

    nowhere = Settings(
        database_url=f"sqlite:///{tmp_path}/no/such.sqlite",
        redis_url="redis://127.0.0.1:1/0",
        data_dir=tmp_path,
    )
    app = create_app(nowhere, dispatcher=dispatcher, reconcile=False)

    async def ask():
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get("/readyz")

    import anyio

    answer = anyio.run(ask)
    assert answer.status_code == 503
    assert [part["pointer"] for part in answer.json()["errors"]] == ["/database"]
