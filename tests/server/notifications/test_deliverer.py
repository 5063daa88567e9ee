"""Messages on their way: signed, tried again, never lost, by one server of several."""

import os
import signal
import subprocess
import sys
import threading

import pytest
from sqlalchemy import select, update

from ampspec.jobs import State
from server.background.notification_sender import NotificationSender
from server.notifications.deliverer import Deliverer
from store.clock import from_now
from store.database import Database
from store.notifications import subscriptions
from store.tables import Delivery, Subscription
from tests.databases import ON_POSTGRESQL, ON_SQLITE
from tests.waiting import DEADLINE_S, join, wait_until
from tests.webhook_receiver import answer_with

CLAIM_AND_WAIT = """
import sys
from server.notifications.channels import ChannelSettings
from server.notifications.deliverer import Deliverer
from store.database import Database

[claimed] = Deliverer(Database(sys.argv[1]), ChannelSettings()).claim(10)
print(claimed.id, flush=True)
sys.stdin.read()
"""
"""A server that is killed after it has claimed a message, and before it sends it."""


@pytest.fixture
def rows(database):
    """The deliveries, the oldest first."""

    def rows():
        with database.read() as session:
            return session.scalars(select(Delivery).order_by(Delivery.created_at)).all()

    return rows


def deliver_due(deliverer):
    claimed = deliverer.claim(10)
    for delivery in claimed:
        deliverer.deliver(delivery)
    return len(claimed)


def make_due(database, **values):
    with database.write() as session:
        session.execute(update(Delivery).values(due_at=from_now(-1), **values))


@ON_SQLITE
def test_a_message_arrives_signed_and_is_sent_once(
    *, receiver, subscribe, make_job, deliverer, rows
):
    subscription = subscribe(receiver.url)
    job = make_job(State.PAUSED)
    assert [deliver_due(deliverer), deliver_due(deliverer)] == [1, 0]
    [request] = receiver.received
    document = request.verify(subscription.secret)
    assert (document["type"], document["data"]["job"]["id"]) == ("job.paused", job.id)
    [row] = rows()
    assert request.headers["webhook-id"] == f"msg_{row.id}"
    assert (row.state, row.status_code, row.attempts, row.error) == ("delivered", 204, 1, None)


@ON_SQLITE
def test_a_message_is_tried_again_with_the_same_id_and_body(
    *, receiver, subscribe, make_job, deliverer, rows, database
):
    subscription = subscribe(receiver.url)
    make_job(State.PAUSED)
    receiver.answer = answer_with(500, b"down for maintenance")
    deliver_due(deliverer)
    [row] = rows()
    assert (row.state, row.status_code, row.response) == ("pending", 500, "down for maintenance")
    assert deliver_due(deliverer) == 0  # not due yet
    receiver.answer = answer_with(200)
    make_due(database)
    deliver_due(deliverer)
    first, second = receiver.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.verify(subscription.secret) == second.verify(subscription.secret)
    assert rows()[0].state == "delivered"


@ON_SQLITE
def test_after_the_last_try_a_message_has_failed(
    *, receiver, subscribe, make_job, deliverer, rows, database
):
    subscribe(receiver.url)
    make_job(State.PAUSED)
    receiver.answer = answer_with(500)
    for _ in range(10):
        make_due(database)
        deliver_due(deliverer)
    make_due(database)
    assert deliver_due(deliverer) == 0
    assert (rows()[0].state, rows()[0].attempts, len(receiver.received)) == ("failed", 10, 10)


@ON_SQLITE
def test_410_gone_disables_the_subscription(
    *, receiver, subscribe, make_job, deliverer, rows, database
):
    subscription = subscribe(receiver.url)
    make_job(State.PAUSED)
    receiver.answer = answer_with(410)
    deliver_due(deliverer)
    make_job(State.PAUSED)
    assert [(row.state, row.status_code) for row in rows()] == [("failed", 410)]
    with database.read() as session:
        assert "410 Gone" in session.get(Subscription, subscription.id).disabled_reason


@ON_SQLITE
def test_a_refused_address_is_a_failed_try_that_says_so(
    *, subscribe, make_job, rows, database, channels
):
    subscribe("http://169.254.169.254/latest/meta-data/")
    make_job(State.PAUSED)
    deliver_due(Deliverer(database, channels))
    [row] = rows()
    assert "received 169.254.169.254" in row.error
    assert (row.status_code, row.response) == (None, None)


@ON_SQLITE
def test_an_unexpected_error_is_recorded_and_tried_again(
    *, receiver, subscribe, make_job, database, channels, rows, caplog
):
    subscribe(receiver.url)
    make_job(State.PAUSED)
    deliver_due(Deliverer(database, channels, ssl_contextt=None))
    [row] = rows()
    assert (row.state, row.error) == (
        "pending",
        "Sending failed unexpectedly; see the log of the server.",
    )
    assert "failed unexpectedly" in caplog.text


@pytest.mark.slow
@ON_POSTGRESQL
def test_a_killed_server_loses_no_message(
    *, receiver, subscribe, make_job, deliverer, rows, database, database_url
):
    subscription = subscribe(receiver.url)
    make_job(State.PAUSED)
    process = subprocess.Popen(
        [sys.executable, "-c", CLAIM_AND_WAIT, database_url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        claimed_id = process.stdout.readline().strip()
        os.kill(process.pid, signal.SIGKILL)
        process.wait(DEADLINE_S)
    assert deliver_due(deliverer) == 0  # its claim still holds
    make_due(database, claimed_until=from_now(-1))
    assert deliver_due(deliverer) == 1
    [request] = receiver.received
    assert request.headers["webhook-id"] == f"msg_{claimed_id}"
    request.verify(subscription.secret)
    assert [(row.state, row.attempts) for row in rows()] == [("delivered", 2)]


@ON_POSTGRESQL
def test_two_servers_deliver_each_message_once(
    *, receiver, subscribe, make_job, database, database_url, channels, rows
):
    for _ in range(3):
        subscribe(receiver.url)
    for _ in range(4):
        make_job(State.PAUSED)
    second = Database(database_url)
    senders = [
        NotificationSender(Deliverer(place, channels), every_s=0.01) for place in (database, second)
    ]
    for sender in senders:
        sender.start()
    wait_until(lambda: {row.state for row in rows()} == {"delivered"}, "all are delivered")
    for sender in senders:
        sender.stop()
    second.close()
    ids = [request.headers["webhook-id"] for request in receiver.received]
    assert len(ids) == len(set(ids)) == 12


@ON_POSTGRESQL
def test_a_receiver_that_hangs_delays_no_other(
    *, receiver, subscribe, make_job, database, channels, rows
):
    subscribe(f"http://127.0.0.1:{receiver.port}/slow")
    fast = subscribe(f"http://127.0.0.1:{receiver.port}/fast")
    reached = threading.Event()

    def answer(handler):
        if handler.path == "/slow":
            reached.set()
            receiver.close.wait()
        answer_with(204)(handler)

    receiver.answer = answer
    for _ in range(3):
        make_job(State.PAUSED)
    sender = NotificationSender(Deliverer(database, channels), every_s=0.01)
    sender.start()
    wait_until(
        lambda: [row.state for row in rows() if row.subscription_id == fast.id] == ["delivered"] * 3
    )
    wait_until(reached.is_set)
    assert [request.path for request in receiver.received].count("/slow") == 1
    receiver.close.set()
    wait_until(lambda: {row.state for row in rows()} == {"delivered"})
    sender.stop()


@ON_SQLITE
def test_a_disabled_subscription_gets_what_failed_after_it_is_enabled(
    *, receiver, subscribe, make_job, deliverer, rows, database
):
    subscription = subscribe(receiver.url)
    make_job(State.PAUSED)
    with database.write() as session:
        row = session.get(Subscription, subscription.id)
        subscriptions.disable(session, row, "Its receiver is down.")
    assert deliver_due(deliverer) == 0
    with database.write() as session:
        subscriptions.enable(session, subscription.id)
        session.execute(update(Delivery).values(state="pending", finished_at=None))
    assert deliver_due(deliverer) == 1
    assert [row.state for row in rows()] == ["delivered"]


@pytest.mark.slow
@ON_SQLITE
def test_stopping_waits_for_no_receiver(*, receiver, subscribe, make_job, deliverer, rows):
    subscribe(receiver.url)
    reached = threading.Event()

    def answer(_handler):
        reached.set()
        receiver.close.wait()

    receiver.answer = answer
    make_job(State.PAUSED)
    sender = NotificationSender(deliverer, every_s=0.01)
    sender.start()
    wait_until(reached.is_set)
    stopping = threading.Thread(target=sender.stop)
    stopping.start()
    join(stopping)
    assert not receiver.close.is_set()
    receiver.close.set()
    wait_until(lambda: all(row.error for row in rows()), "the try has ended")
