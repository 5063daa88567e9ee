import threading

import httpx
import pytest

import ampcore
from infra.storage import Storage
from server import schema
from tests.waiting import DEADLINE_S


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


def test_a_storage_that_hangs_is_named(api, anyone, monkeypatch):
    """Fails if the request waits for the storage: the answer would name no part."""
    may_go_on = threading.Event()
    monkeypatch.setattr("server.health.readiness.FIRST_CHECK_S", 0.05)
    monkeypatch.setattr(Storage, "check", lambda _: may_go_on.wait(DEADLINE_S))
    answer = anyone.get("/readyz")
    may_go_on.set()
    assert answer.status_code == 503
    [part] = answer.json()["errors"]
    assert part["pointer"] == "/artifacts"
    assert part["received"] == "the storage of artifacts has not answered for 0.05 s."


def test_asking_often_does_not_check_the_storage_again(anyone, monkeypatch):
    checks = []
    monkeypatch.setattr("server.http.admission.shared_result.TTL_S", 0.0)
    monkeypatch.setattr(Storage, "check", lambda _: checks.append(1))
    assert [anyone.get("/readyz").status_code for _ in range(5)] == [200] * 5
    assert len(checks) == 1


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
    app.state.storage_check.stop()
    assert answer.status_code == 503
    assert [part["pointer"] for part in answer.json()["errors"]] == ["/database"]
