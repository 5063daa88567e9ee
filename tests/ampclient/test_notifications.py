"""`client.notifications`, `ampctl notification` and `ampctl watch --notify`, on a real server."""

import json
from datetime import UTC, datetime

import pytest

from ampclient import Client, Conflict, InvalidRequest, NotFound
from ampclient.cli import main
from ampspec.jobs import State
from store.notifications import deliveries
from store.notifications.deliveries import TryResult

TARGET = "https://receiver.example/hook"
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: the store has its own tests on both databases."""
    return sqlite_url


@pytest.fixture
def client(api):
    with Client(api.url, api.token) as client:
        yield client


@pytest.fixture
def ampctl(api, capsys, monkeypatch):
    """Run one command line in this process; returns its exit status, its output and its errors."""
    monkeypatch.setenv("AMPCORE_URL", api.url)
    monkeypatch.setenv("AMPCORE_TOKEN", api.token)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main(arguments)
        output = capsys.readouterr()
        return int(exit_.value.code or 0), output.out, output.err

    return run


@pytest.fixture
def fail_delivery(api):
    """Let the message that is due fail for good; returns its id."""

    def fail_delivery():
        with api.database.write() as session:
            [claim] = deliveries.claim(session, limit=1)
            deliveries.record(session, claim, TryResult("It is down.", 500))
        return claim.id

    return fail_delivery


def test_a_subscription_from_its_creation_to_its_end(client, make_job, fail_delivery):
    created = client.notifications.create(TARGET, name="ci", types=["job.paused"])
    assert created.secret.startswith("whsec_")
    assert created.secret not in repr(created)
    assert client.notifications.get(created.id).name == "ci"
    assert client.notifications.update(created.id, name="new").name == "new"
    assert client.notifications.rotate(created.id).secret != created.secret
    make_job(State.PAUSED)
    delivery_id = fail_delivery()
    [delivery] = client.notifications.deliveries(created.id, state="failed")
    assert (delivery.id, delivery.error) == (delivery_id, "It is down.")
    assert client.notifications.resend(created.id, delivery_id).state == "pending"
    with pytest.raises(Conflict, match="still pending"):
        client.notifications.resend(created.id, delivery_id)
    fail_delivery()
    assert client.notifications.resend_failed(created.id, LONG_AGO) == 1
    assert client.notifications.test(created.id).type == "notification.test"
    assert client.notifications.update(created.id, enabled=False).disabled_at is not None
    client.notifications.delete(created.id)
    with pytest.raises(NotFound):
        client.notifications.get(created.id)


def test_a_job_may_be_named_by_itself(client, make_job):
    job = client.jobs.get(make_job().id)
    created = client.notifications.create(TARGET, job=job)
    client.notifications.create(TARGET)
    assert [item.id for item in client.notifications.list(job=job)] == [created.id]
    assert created.job_id == job.id
    assert len(list(client.notifications.list())) == 2


def test_a_mistake_names_the_field(client):
    with pytest.raises(InvalidRequest, match="/body/target"):
        client.notifications.create("http://receiver.example/")


@pytest.mark.slow
def test_the_commands_create_list_and_show(ampctl):
    code, secret, hint = ampctl("notification", "create", TARGET, "--type", "job.*")
    assert (code, secret[:6]) == (0, "whsec_")
    assert "not shown again" in hint
    _, names, _ = ampctl("notification", "list", "-o", "name")
    [notification_id] = names.split()
    _, table, _ = ampctl("notification", "list")
    assert "job.*" in table
    assert "enabled" in table
    assert TARGET in table
    assert secret.strip() not in table
    _, shown, _ = ampctl("notification", "show", notification_id, "--json")
    assert json.loads(shown)["target"] == TARGET
    _, changed, _ = ampctl("notification", "edit", notification_id, "--name", "ci")
    assert "ci" in changed
    _, rotated, _ = ampctl("notification", "rotate", notification_id)
    assert rotated.startswith("whsec_")
    assert rotated != secret
    assert ampctl("notification", "disable", notification_id)[1].endswith("disabled\n")
    assert "test has disabled it." in ampctl("notification", "show", notification_id)[1]
    assert ampctl("notification", "enable", notification_id)[1].endswith("enabled\n")
    assert "on its way" in ampctl("notification", "test", notification_id)[1]
    assert ampctl("notification", "delete", notification_id)[1].endswith("deleted\n")
    assert "Create one with" in ampctl("notification", "list")[2]


@pytest.mark.slow
def test_the_commands_list_messages_and_send_them_again(ampctl, client, make_job, fail_delivery):
    created = client.notifications.create(TARGET, types=["job.paused"])
    make_job(State.PAUSED)
    delivery_id = fail_delivery()
    _, table, _ = ampctl("notification", "deliveries", created.id)
    assert all(word in table for word in (delivery_id, "failed", "500", "It is down."))
    _, count, _ = ampctl("notification", "resend", created.id, "--since", "2h")
    assert count == "messages to send again: 1\n"
    fail_delivery()
    assert ampctl("notification", "resend", created.id, delivery_id)[0] == 0
    assert "--since" in ampctl("notification", "resend", created.id)[2]
    assert "received '2y'" in ampctl("notification", "resend", created.id, "--since", "2y")[2]


def test_watch_has_the_server_tell_the_end(ampctl, client, make_job):
    job = make_job(State.SUCCEEDED)
    code, _, hint = ampctl("watch", job.id, "--notify", TARGET)
    assert code == 0
    assert f"a message goes to {TARGET} at its end" in hint
    [subscription] = client.notifications.list(job=job.id)
    [delivery] = client.notifications.deliveries(subscription.id)
    assert delivery.type == "job.succeeded"


def test_watch_says_what_is_wrong_with_a_target(ampctl, make_job):
    code, _, error = ampctl("watch", make_job(State.SUCCEEDED).id, "--notify", "nowhere")
    assert code == 3
    assert "one of the schemes" in error
