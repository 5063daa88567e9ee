from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import pytest
from sqlalchemy import func, select

from ampspec.jobs import State
from server.data_root import DataRoot
from store.access import projects
from store.tables import AuditEntry, IdempotencyKey, Job
from tests.databases import ON_SQLITE
from tests.tables import every_row
from tests.waiting import DEADLINE_S

SPEC = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}
OTHER = {**SPEC, "name": "other"}


@pytest.fixture
def post(api):
    def ask(spec=SPEC, key="a-key", path="/api/v1/jobs", client=api.client):
        return client.post(path, json=spec, headers={"Idempotency-Key": key})

    return ask


@pytest.fixture
def count(api):
    """How many rows a table has."""

    def rows(table=Job):
        with api.database.read() as session:
            return session.scalar(select(func.count()).select_from(table))

    return rows


def test_a_repeated_request_gets_the_same_response_and_creates_no_job(api, post, count):
    first, again = post(), post()
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    for name in ("Location", "Content-Type"):
        assert again.headers[name] == first.headers[name]
    assert again.headers["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first.headers
    assert (count(Job), count(AuditEntry), len(api.dispatcher.sent)) == (1, 1, 1)


def test_a_repeated_request_gets_the_first_response_after_the_job_has_changed(api, post):
    first = post()
    api.client.post(f"{first.headers['Location']}/cancel")
    assert post().json()["state"] == "queued"
    api.client.delete(first.headers["Location"])
    assert post().content == first.content


def test_another_body_with_the_same_key_is_refused(post, count):
    post()
    answer = post(OTHER)
    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency_key_reused")
    assert count() == 1


def test_a_repeated_clone_request_creates_one_job(post, count, make_job):
    path = f"/api/v1/jobs/{make_job(State.FAILED).id}/clone"
    first, again = (post({}, path=path) for _ in range(2))
    assert first.content == again.content
    assert again.headers["Idempotency-Replayed"] == "true"
    assert count() == 2
    assert post(SPEC).json()["code"] == "idempotency_key_reused"


def test_projects_do_not_share_keys(post, client_with_role, count):
    first, other = post(), post(client=client_with_role("member", "other"))
    assert first.json()["id"] != other.json()["id"]
    assert count() == 2


def test_a_request_with_the_key_of_a_running_one_gets_its_response(post, count, monkeypatch):
    arrived, go_on = Event(), Event()
    check = DataRoot.check

    def wait(*arguments):
        arrived.set()
        assert go_on.wait(DEADLINE_S)
        return check(*arguments)

    monkeypatch.setattr(DataRoot, "check", wait)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(post)
        assert arrived.wait(DEADLINE_S)
        second = pool.submit(post)
        go_on.set()
        answers = [first.result(), second.result()]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].content == answers[1].content
    assert count() == 1


def test_concurrent_requests_with_one_key_create_one_job(post, count):
    barrier = Barrier(8)

    def race(_):
        barrier.wait(DEADLINE_S)
        return post()

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(race, range(8)))
    assert {answer.status_code for answer in answers} == {201}
    posted = {answer.json()["id"] for answer in answers}
    assert len(posted) == count() == 1


def test_an_error_does_not_use_up_the_key(api, post, count):
    assert post({"model": {}}).json()["code"] == "invalid_spec"
    with api.database.write() as session:
        projects.update(session, "default", {"max_queued": 0})
    assert post().json()["code"] == "quota_exceeded"
    with api.database.write() as session:
        projects.update(session, "default", {"max_queued": None})
    assert count(IdempotencyKey) == 0
    assert post(OTHER).status_code == 201
    assert count() == 1


def test_a_key_belongs_to_one_token(post, client_with_role, count):
    """A stored response is never returned to another token, which may not be allowed to see it."""
    post()
    answer = post(client=client_with_role("member", "default"))
    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency_key_reused")
    assert count() == 1


@ON_SQLITE
@every_row("key", ["", "a b", "x" * 256, "ä", "a\tb"])
def test_an_invalid_key_is_refused(api, count, key):
    headers = {"Idempotency-Key": key.encode("latin-1")}
    answer = api.client.post("/api/v1/jobs", json=SPEC, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["errors"][0]["pointer"] == "/header/Idempotency-Key"
    assert count() == 0


@ON_SQLITE
def test_a_key_of_the_maximum_length_is_accepted(post):
    assert post(key="~" * 255).status_code == 201
