"""The routes of notifications: subscriptions, their secrets, and the deliveries of messages."""

import json

import pytest
from sqlalchemy import select, update

from ampspec.jobs import State
from store.notifications import deliveries, subscriptions
from store.notifications.deliveries import TryResult
from store.tables import AuditEntry, Delivery, IdempotencyKey, Subscription
from tests.tables import every_row

PATH = "/api/v1/notifications"
TARGET = "https://receiver.example/hook"


@pytest.fixture
def database_url(sqlite_url):
    """The store's tests run on both kinds of database; these are about requests."""
    return sqlite_url


@pytest.fixture
def create(api):
    """Create a subscription through the API."""

    def create(client=None, status=201, **body):
        response = (client or api.client).post(PATH, json={"target": TARGET, **body})
        assert response.status_code == status, response.text
        return response.json()

    return create


@pytest.fixture
def failed(api, create, make_job):
    """A subscription with a message that has failed; returns its path and the id of the message."""

    def failed():
        subscription = create(types=["job.paused"])
        make_job(State.PAUSED)
        with api.database.write() as session:
            [claim] = deliveries.claim(session, limit=1)
            deliveries.record(session, claim, TryResult("It is down.", 500, "why", 0.25))
        return f"{PATH}/{subscription['id']}", claim.id

    return failed


def test_a_secret_is_shown_at_creation_and_rotation_and_never_else(api, create):
    created = create()
    assert created["secret"].startswith("whsec_")
    path = f"{PATH}/{created['id']}"
    rotated = api.client.post(f"{path}/rotate")
    assert rotated.headers["cache-control"] == "no-store"
    assert rotated.json()["secret"] != created["secret"]
    assert rotated.json()["previous_secret_until"] is not None
    changed = api.client.patch(path, json={"name": "new"})
    texts = [api.client.get(path).text, api.client.get(PATH).text, changed.text]
    with api.database.read() as session:
        texts += map(str, session.scalars(select(AuditEntry.data)))
        texts += map(str, session.scalars(select(IdempotencyKey.body)))
    for secret in (created["secret"], rotated.json()["secret"]):
        assert not any(secret in text for text in texts)


def test_a_repeated_request_creates_one_subscription_and_shows_its_secret_again(api):
    headers = {"Idempotency-Key": "once"}
    first, second = (
        api.client.post(PATH, json={"target": TARGET}, headers=headers) for _ in range(2)
    )
    assert first.json() == second.json()
    assert second.headers["idempotency-replayed"] == "true"
    with api.database.read() as session:
        assert "whsec_" not in session.scalars(select(IdempotencyKey.body)).one()


def test_the_defaults_are_the_ends_of_jobs_and_studies(create, make_job):
    assert create()["types"] == [
        *("job.succeeded", "job.failed", "job.cancelled"),
        *("study.*", "notification.disabled"),
    ]
    of_job = create(job_id=make_job().id)
    assert of_job["types"] == ["job.succeeded", "job.failed", "job.cancelled"]
    assert (of_job["name"], of_job["channel"]) == (TARGET, "webhook")


@every_row(
    ("body", "pointer", "expected"),
    [
        ({"target": "http://receiver.example/"}, "/body/target", "an https:// address"),
        ({"target": "json://localhost/"}, "/body/target", "one of the schemes"),
        ({"target": "mailto:ann@example.com"}, "/body/target", "AMPCORE_SMTP_URL"),
        ({"target": ""}, "/body/target", ""),
        ({"target": TARGET, "types": ["job.exploded"]}, "/body/types/0", "one of"),
        ({"target": TARGET, "types": []}, "/body/types", ""),
        ({"target": TARGET, "name": "a\nb"}, "/body/name", ""),
        ({"target": TARGET, "job_id": "x"}, "/body/job_id", ""),
        ({"target": TARGET, "unknown": 1}, "/body/unknown", ""),
        ({}, "/body/target", ""),
    ],
)
def test_a_mistake_is_named(api, body, pointer, expected):
    response = api.client.post(PATH, json=body)
    assert response.status_code == 422
    [problem] = response.json()["errors"]
    assert problem["pointer"] == pointer
    assert expected in problem["expected"]


def test_one_job_has_no_studies_and_workers(api, make_job):
    body = {"target": TARGET, "job_id": make_job().id, "types": ["worker.*"]}
    response = api.client.post(PATH, json=body)
    assert response.status_code == 422
    assert "job, guard and diagnosis" in response.text


def test_a_job_of_another_project_cannot_be_subscribed_to(api, create, make_job, client_with_role):
    job = make_job(project="other")
    create(client_with_role(), status=404, job_id=job.id)
    assert create(job_id=job.id)["project"] == "other"  # an admin


def test_a_member_sees_the_subscriptions_of_its_project_in_pages(api, create, client_with_role):
    other, member = client_with_role(project="other"), client_with_role()
    create(other)
    ids = [create()["id"] for _ in range(3)]
    page = member.get(PATH, params={"limit": 2}).json()
    assert [item["id"] for item in page["items"]] == ids[:0:-1]
    last = member.get(PATH, params={"limit": 2, "cursor": page["next_cursor"]}).json()
    assert [item["id"] for item in last["items"]] == ids[:1]
    assert len(other.get(PATH).json()["items"]) == 1
    assert other.get(f"{PATH}/{ids[0]}").status_code == 404
    assert client_with_role("viewer").get(PATH).status_code == 403


def test_the_subscriptions_to_a_job_are_listed(api, create, make_job):
    job = make_job()
    create()
    of_job = create(job_id=job.id)
    listed = api.client.get(PATH, params={"job_id": job.id}).json()["items"]
    assert [item["id"] for item in listed] == [of_job["id"]]


def test_a_subscription_is_disabled_and_enabled(api, create):
    path = f"{PATH}/{create()['id']}"
    disabled = api.client.patch(path, json={"enabled": False}).json()
    assert disabled["disabled_reason"] == "test has disabled it."
    for request in ("test", "resend"):
        body = {"since": "2026-01-01T00:00:00Z"} if request == "resend" else None
        response = api.client.post(f"{path}/{request}", json=body)
        assert (response.status_code, "enable this one first" in response.text) == (409, True)
    enabled = api.client.patch(path, json={"enabled": True, "types": ["study.*"]}).json()
    assert (enabled["disabled_at"], enabled["types"]) == (None, ["study.*"])


def test_a_test_message_is_written_once_for_a_key(api, create):
    path = f"{PATH}/{create()['id']}"
    headers = {"Idempotency-Key": "k" * 255}
    ids = {api.client.post(f"{path}/test", headers=headers).json()["id"] for _ in range(2)}
    [delivery] = api.client.get(f"{path}/deliveries").json()["items"]
    assert {delivery["id"]} == ids
    assert (delivery["type"], delivery["state"]) == ("notification.test", "pending")


def test_a_delivery_says_how_it_ended_and_is_sent_again(api, failed):
    path, delivery_id = failed()
    page = api.client.get(f"{path}/deliveries", params={"state": "failed"}).json()
    [delivery] = page["items"]
    facts = {"error": "It is down.", "status_code": 500, "response": "why", "duration_s": 0.25}
    assert facts.items() <= delivery.items()
    assert json.loads(delivery["body"])["type"] == "job.paused"
    again = api.client.post(f"{path}/deliveries/{delivery_id}/resend")
    assert (again.status_code, again.json()["state"]) == (202, "pending")
    once_more = api.client.post(f"{path}/deliveries/{delivery_id}/resend")
    assert once_more.status_code == 409
    assert api.client.get(f"{path}/deliveries", params={"state": "failed"}).json()["items"] == []


def test_all_that_has_failed_since_a_time_is_sent_again(api, failed):
    path, _ = failed()
    counts = [
        api.client.post(f"{path}/resend", json={"since": since}).json()["count"]
        for since in ("2999-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z")
    ]
    assert counts == [0, 1, 0]
    for since in ("2026-01-01", "0001-01-01T00:00:00+23:59", "9999-12-31T23:00:00-10:00"):
        assert api.client.post(f"{path}/resend", json={"since": since}).status_code == 422


def test_a_delivery_of_another_subscription_is_unknown(api, failed, create):
    _, delivery_id = failed()
    path = f"{PATH}/{create()['id']}/deliveries/{delivery_id}/resend"
    assert api.client.post(path).status_code == 404


def test_deleting_a_subscription_deletes_its_messages(api, failed):
    path, _ = failed()
    assert api.client.delete(path).status_code == 204
    assert api.client.delete(path).status_code == 404
    with api.database.read() as session:
        assert session.scalars(select(Delivery.id)).all() == []


def test_only_webhooks_have_secrets(api, create):
    subscription = create()
    with api.database.write() as session:
        session.execute(update(Subscription).values(channel="email", secret=None))
    response = api.client.post(f"{PATH}/{subscription['id']}/rotate")
    assert (response.status_code, "no secret" in response.text) == (409, True)


def test_the_quota_of_subscriptions_is_a_429(api, create, monkeypatch):
    monkeypatch.setattr(subscriptions, "MAX_SUBSCRIPTIONS", 0)
    assert "quota of 0 subscriptions" in create(status=429)["detail"]


def test_every_change_is_in_the_audit_log(api, failed):
    path, delivery_id = failed()
    api.client.patch(path, json={"name": "new"})
    api.client.post(f"{path}/rotate")
    api.client.post(f"{path}/test")
    api.client.post(f"{path}/deliveries/{delivery_id}/resend")
    api.client.delete(path)
    with api.database.read() as session:
        actions = session.scalars(select(AuditEntry.action).order_by(AuditEntry.id)).all()
    names = ("create", "update", "rotate", "test", "resend", "delete")
    assert [action for action in actions if action.startswith("notification.")] == [
        f"notification.{name}" for name in names
    ]
