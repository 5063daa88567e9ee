"""The outbox: which message is written for whom, exactly once, in the transaction of its cause."""

import json
import threading
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select, update

from ampspec.jobs import Reason, State
from ampspec.notifications.types import NotificationType
from ampspec.telemetry import Event, EventType
from store import silent_workers, studies, workers
from store.access.projects import QuotaReached
from store.clock import from_now
from store.jobs import attempts, jobs
from store.listing import bulk_changes
from store.listing.search import Search
from store.notifications import deliveries, subscriptions
from store.notifications.deliveries import TryResult
from store.tables import Delivery, Job, Study, Subscription, Worker
from store.telemetry import ingest
from tests.databases import ON_POSTGRESQL, ON_SQLITE
from tests.tables import every_row
from tests.waiting import join

EVERYTHING = ["job.*", "guard.*", "diagnosis.*", "study.*", "worker.*", "notification.*"]
WORKER = {"hostname": "box", "pid": 1, "slots": 1, "version": "1", "queues": ["default"]}
FAILED_TRY = TryResult("Expected a status from 200 to 299, received 500.", 500, retry_in_s=5.0)


def fail(session, job_id, attempt=1, message="Out of memory."):
    """A worker reports that its attempt has failed for good."""
    reason = Reason.OUT_OF_MEMORY
    attempts.fail(session, job_id, attempt, reason, message, outcome="failed", may_retry=False)


@pytest.fixture
def subscribe(in_transaction):
    """Create a subscription; by default to everything of the project default."""

    def subscribe(**values):
        default = {"project": "default", "name": "all", "channel": "webhook"}
        default |= {"target": "https://example.com/", "types": EVERYTHING}
        return in_transaction(subscriptions.create, **default | values)

    return subscribe


@pytest.fixture
def written(database):
    """The types of the messages of a subscription, or of all, in order."""

    def written(subscription=None):
        statement = select(Delivery.type).order_by(Delivery.created_at)
        if subscription is not None:
            statement = statement.where(Delivery.subscription_id == subscription.id)
        with database.read() as session:
            return list(session.scalars(statement))

    return written


@pytest.fixture
def body_of(database):
    """The document of the only message of a type."""

    def body_of(notification):
        with database.read() as session:
            statement = select(Delivery.body).where(Delivery.type == notification)
            return json.loads(session.scalars(statement).one())

    return body_of


@every_row(
    ("state", "expected"),
    [
        (State.QUEUED, []),
        (State.RUNNING, ["job.started"]),
        (State.PAUSED, ["job.paused"]),
        (State.SUCCEEDED, ["job.started", "job.succeeded"]),
        (State.FAILED, ["job.started", "job.failed"]),
        (State.CANCELLED, ["job.cancelled"]),
    ],
)
def test_each_new_state_of_a_job_is_one_message(subscribe, make_job, written, state, expected):
    subscription = subscribe()
    make_job(state)
    assert written(subscription) == expected


def test_a_message_says_what_happened_in_which_job_and_why(
    in_transaction, subscribe, make_job, body_of
):
    subscribe(types=["job.failed"], link_base="https://ampcore.example.com")
    job = make_job(State.RUNNING)
    message = "The trainer was killed: out of memory."
    in_transaction(fail, job.id, message=message)
    document = body_of("job.failed")
    assert datetime.fromisoformat(document["timestamp"]).tzinfo is not None
    data = document["data"]
    assert data["title"] == f"{job.name} failed"
    assert data["text"].startswith(f"The job {job.name} ({job.id}) failed. {message}")
    assert f"ampctl job logs {job.id}" in data["text"]
    assert data["link"] == f"https://ampcore.example.com/#/jobs/{job.id}"
    facts = {"id": job.id, "state": "failed", "reason": "out_of_memory", "message": message}
    assert facts.items() <= data["job"].items()


def test_a_lost_worker_requeues_its_job_with_one_message(
    in_transaction, subscribe, make_job, written
):
    job = make_job(State.RUNNING)
    subscription = subscribe()
    fields = (Reason.WORKER_LOST, "Its worker stopped sending heartbeats.")
    in_transaction(attempts.fail, job.id, 1, *fields, outcome="lost")
    assert written(subscription) == ["job.requeued"]


def test_bulk_changes_write_a_message_for_each_job(in_transaction, subscribe, make_job, written):
    subscription = subscribe()
    for _ in range(3):
        make_job()
    in_transaction(bulk_changes.cancel_matching, Search(), limit=10)
    assert written(subscription) == ["job.cancelled"] * 3


EVENTS = [
    (EventType.ROLLBACK, {"scale": 2.0}, "guard.rollback"),
    (EventType.FLOAT32_FALLBACK, {}, "guard.float32_fallback"),
    (EventType.LOSS_SPIKE, {"message": "The loss rose to 9."}, "guard.loss_spike"),
    (EventType.GRAD_NORM_JUMP, {"message": "It rose."}, "guard.grad_norm_jump"),
    (EventType.NOT_REPRODUCIBLE, {"message": "Differs."}, "guard.not_reproducible"),
    (EventType.OVERFLOW, {"diagnosis": "inputs", "sentence": "Why."}, "diagnosis.overflow"),
    (EventType.OVERFLOW, {"scale_before": 2.0}, None),
    (EventType.EXPLANATION, {"sentence": "Why."}, "diagnosis.explanation"),
    (EventType.CHECKPOINT_SAVED, {}, None),
]


@every_row(("event", "data", "expected"), EVENTS)
def test_each_notable_event_is_a_message(
    *, in_transaction, subscribe, make_job, written, event, data, expected
):
    job = make_job(State.RUNNING)
    subscription = subscribe()
    entries = [Event(event, 7, data)]
    in_transaction(ingest.append, job.id, 1, entries, entries_written=0)
    assert written(subscription) == ([] if expected is None else [expected])
    # A worker that lost the response to its commit writes the same again.
    in_transaction(ingest.append, job.id, 1, entries, entries_written=0)
    assert len(written(subscription)) == (expected is not None)


def test_of_events_that_come_by_the_thousand_the_first_of_an_attempt_is_sent(
    in_transaction, subscribe, make_job, written
):
    job = make_job(State.RUNNING)
    subscription = subscribe()
    spikes = [Event(EventType.LOSS_SPIKE, step, {"message": "It rose."}) for step in range(50)]
    rollbacks = [Event(EventType.ROLLBACK, step, {}) for step in range(3)]
    in_transaction(ingest.append, job.id, 1, [*spikes, *rollbacks], entries_written=0)
    assert sorted(written(subscription)) == ["guard.loss_spike", *["guard.rollback"] * 3]


@every_row("state", [studies.SUCCEEDED, studies.FAILED, studies.CANCELLED])
def test_the_end_of_a_study_is_a_message(in_transaction, subscribe, written, state):
    subscription = subscribe()

    def end(session):
        study = Study(project="default", kind="precision", name="which policy?", spec={})
        study.options, study.policies, study.facts = {}, [], {}
        session.add(study)
        session.flush()
        studies.set_state(session, study, studies.RUNNING)
        studies.set_state(session, study, state, message="So it ended.")

    in_transaction(end)
    assert written(subscription) == [f"study.{state}"]


def test_workers_are_reported_to_every_project(in_transaction, database, subscribe, written):
    subscription = subscribe(types=["worker.*"])
    subscribe(types=["job.*"])
    in_transaction(workers.register, "w", **WORKER)
    in_transaction(workers.register, "for-one-job", **WORKER, job_id="0" * 12)

    def seen(seconds_ago):
        with database.write() as session:
            session.execute(
                update(Worker).where(Worker.id == "w").values(last_seen_at=from_now(-seconds_ago))
            )
        with database.autocommit() as connection:
            changed = silent_workers.have_changed(connection)
        in_transaction(silent_workers.publish)
        in_transaction(silent_workers.publish)  # another server does the same
        return changed

    assert [seen(1), seen(31), seen(40), seen(1)] == [False, True, False, True]
    in_transaction(workers.request_drain, "w")
    in_transaction(workers.request_drain, "w")
    in_transaction(workers.stopped, "w")
    events = ("started", "lost", "recovered", "draining", "stopped")
    assert written() == written(subscription) == [f"worker.{name}" for name in events]


def test_every_type_is_written_by_something():
    """Fails for a type that is added without what writes it; the tests above have each of these."""
    of_jobs = {"started", "requeued", "paused", "succeeded", "failed", "cancelled"}
    of_workers = {"started", "draining", "stopped", "lost", "recovered"}
    tested = {f"job.{name}" for name in of_jobs} | {f"worker.{name}" for name in of_workers}
    tested |= {expected for *_, expected in EVENTS if expected}
    tested |= {f"study.{name}" for name in ("succeeded", "failed", "cancelled")}
    tested |= {"notification.disabled", "notification.test"}
    assert tested == set(NotificationType)


def test_only_subscriptions_of_the_project_that_list_the_type_get_it(
    subscribe, make_job, written, in_transaction
):
    make_job(project="other")
    chosen, group, other_type = (
        subscribe(types=types) for types in (["job.failed"], ["job.*"], ["job.succeeded"])
    )
    other_project = subscribe(project="other")
    disabled = subscribe()
    in_transaction(
        lambda session: subscriptions.disable(session, session.get(Subscription, disabled.id), "-")
    )
    make_job(State.FAILED)
    assert written(chosen) == ["job.failed"]
    assert written(group) == ["job.started", "job.failed"]
    assert written(other_type) == written(other_project) == written(disabled) == []


def test_a_rolled_back_change_leaves_no_message(in_transaction, subscribe, make_job, written):
    job = make_job(State.RUNNING)
    subscribe()

    def fail_and_stop(session):
        fail(session, job.id)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        in_transaction(fail_and_stop)
    assert written() == []


# ---- One job


def test_a_subscription_to_one_job_gets_its_end_once(
    in_transaction, database, subscribe, make_job, written
):
    job, other_job = make_job(State.RUNNING), make_job(State.RUNNING)
    subscription = subscribe(job_id=job.id, types=["job.failed", "job.succeeded"])
    for ended_job in (job, other_job):
        in_transaction(fail, ended_job.id)
    in_transaction(jobs.retry, job.id)
    in_transaction(attempts.claim, job.id, "w")
    in_transaction(fail, job.id, attempt=2)
    assert written(subscription) == ["job.failed"]
    with database.read() as session:
        assert session.get(Subscription, subscription.id).completed_at is not None


def test_a_subscription_to_a_job_that_has_ended_gets_its_end_at_once(subscribe, make_job, written):
    job = make_job(State.SUCCEEDED)
    subscription = subscribe(job_id=job.id, types=["job.succeeded"])
    assert written(subscription) == ["job.succeeded"]
    assert subscription.completed_at is not None


@ON_POSTGRESQL
@every_row("ends_first", [True, False])
def test_a_job_that_ends_while_it_is_subscribed_to_is_reported_once(
    *, database, subscribe, make_job, written, until_blocked, ends_first
):
    """Fails without the lock: neither transaction would see the other."""
    job = make_job(State.RUNNING)
    created = []

    def end(session):
        fail(session, job.id)

    def create(session):
        values = {"project": "default", "name": "one", "channel": "webhook", "job_id": job.id}
        values |= {"target": "https://example.com/", "types": ["job.failed"]}
        created.append(subscriptions.create(session, **values))

    first, second = (end, create) if ends_first else (create, end)

    def run_second():
        with database.write() as session:
            second(session)

    thread = threading.Thread(target=run_second)
    with database.write() as session:
        first(session)
        thread.start()
        until_blocked(thread)
    join(thread)
    assert written(created[0]) == ["job.failed"]


# ---- Deliveries


@pytest.fixture
def pending(subscribe, make_job):
    """A subscription with one message."""
    subscription = subscribe(types=["job.paused"])
    make_job(State.PAUSED)
    return subscription


@pytest.fixture
def claimed(in_transaction):
    """Claim what is due."""
    return lambda limit=10: in_transaction(deliveries.claim, limit=limit)


def only_delivery(database):
    with database.read() as session:
        return session.scalars(select(Delivery)).one()


def test_a_message_is_claimed_by_one_server_until_its_claim_expires(
    database, pending, claimed, in_transaction
):
    [first] = claimed()
    assert (first.attempts, claimed()) == (1, [])
    with database.write() as session:
        session.execute(update(Delivery).values(claimed_until=from_now(-1)))
    [second] = claimed()
    assert (second.id, second.attempts) == (first.id, 2)
    # The server that was thought dead reports, but may not: the other one owns the message.
    assert not in_transaction(deliveries.record, first, TryResult())
    assert in_transaction(deliveries.record, second, TryResult(None, 204))
    assert only_delivery(database).state == "delivered"


def test_a_receiver_gets_one_request_at_a_time_and_keeps_no_other_waiting(
    subscribe, make_job, claimed, in_transaction
):
    slow, fast = subscribe(types=["job.paused"]), subscribe(types=["job.paused"])
    for _ in range(3):
        make_job(State.PAUSED)
    first = claimed()
    assert sorted(claim.subscription_id for claim in first) == sorted([slow.id, fast.id])
    assert claimed() == []
    [of_fast] = [claim for claim in first if claim.subscription_id == fast.id]
    in_transaction(deliveries.record, of_fast, TryResult())
    assert [claim.subscription_id for claim in claimed()] == [fast.id]


@ON_POSTGRESQL
def test_two_servers_at_once_claim_different_messages(database, subscribe, make_job):
    for _ in range(2):
        subscribe(types=["job.paused"])
    make_job(State.PAUSED)
    with database.write() as first, database.write() as second:
        ids = [
            claim.id for session in (first, second) for claim in deliveries.claim(session, limit=10)
        ]
    assert len(ids) == len(set(ids)) == 2


def test_a_failed_try_is_due_later_and_the_last_one_fails(
    database, pending, claimed, in_transaction
):
    [claim] = claimed()
    in_transaction(deliveries.record, claim, FAILED_TRY)
    row = only_delivery(database)
    assert (row.state, row.status_code, row.error) == ("pending", 500, FAILED_TRY.error)
    assert claimed() == []
    with database.write() as session:
        session.execute(update(Delivery).values(due_at=from_now(-1)))
    [claim] = claimed()
    in_transaction(deliveries.record, claim, TryResult("down", retry_in_s=None))
    assert only_delivery(database).state == "failed"


def test_a_subscription_is_disabled_after_days_of_failure_and_the_others_are_told(
    *, database, pending, claimed, in_transaction, subscribe, written, make_job
):
    other = subscribe(types=["notification.*"])
    make_job(State.PAUSED)  # a second message, which waits
    [claim] = claimed()
    in_transaction(deliveries.record, claim, FAILED_TRY)
    with database.write() as session:
        since = from_now(-subscriptions.DISABLED_AFTER_S - 1)
        session.execute(update(Subscription).values(failing_since=since))
        session.execute(update(Delivery).values(due_at=from_now(-1)))
    [claim] = claimed()
    in_transaction(deliveries.record, claim, FAILED_TRY)
    with database.read() as session:
        row = session.get(Subscription, pending.id)
        assert "Every message failed for 5 days" in row.disabled_reason
        states = select(Delivery.state).where(Delivery.subscription_id == pending.id)
        assert set(session.scalars(states)) == {"failed"}
    assert written(other) == ["notification.disabled"]


def test_a_success_in_between_keeps_a_subscription_enabled(
    database, pending, claimed, in_transaction
):
    with database.write() as session:
        since = from_now(-subscriptions.DISABLED_AFTER_S - 1)
        session.execute(update(Subscription).values(failing_since=since))
    [claim] = claimed()
    in_transaction(deliveries.record, claim, TryResult(None, 200))
    with database.read() as session:
        row = session.get(Subscription, pending.id)
        assert (row.failing_since, row.disabled_at) == (None, None)


def test_what_is_delivered_or_pending_is_not_sent_again_with_what_failed(
    database, subscribe, make_job, claimed, in_transaction
):
    subscription = subscribe(types=["job.paused"])
    results = [TryResult(None, 200), TryResult("gone", 500), TryResult("gone", 500)]
    for result in results:
        make_job(State.PAUSED)
        [claim] = claimed()
        in_transaction(deliveries.record, claim, result)
    make_job(State.PAUSED)
    [in_progress] = claimed()
    since = datetime.now(UTC) - timedelta(hours=1)
    assert in_transaction(deliveries.resend_failed, subscription.id, since) == 2
    assert in_transaction(deliveries.resend, in_progress.id) is None
    later = datetime.now(UTC) + timedelta(hours=1)
    assert in_transaction(deliveries.resend_failed, subscription.id, later) == 0


def test_a_message_that_is_sent_again_keeps_its_id_and_body(
    database, pending, claimed, in_transaction
):
    [first] = claimed()
    in_transaction(deliveries.record, first, TryResult("down"))
    in_transaction(deliveries.resend, first.id)
    [second] = claimed()
    assert (second.id, second.body, second.attempts) == (first.id, first.body, 1)


@ON_SQLITE
def test_old_deliveries_and_completed_subscriptions_are_deleted(
    database, subscribe, make_job, in_transaction, monkeypatch
):
    monkeypatch.setattr(deliveries, "MAX_KEPT", 2)
    monkeypatch.setattr(deliveries, "MAX_PENDING", 3)
    subscription = subscribe(types=["job.paused"])
    job = make_job(State.SUCCEEDED)
    completed = subscribe(job_id=job.id, types=["job.succeeded"])
    for _ in range(8):
        make_job(State.PAUSED)
    with database.write() as session:
        mine = select(Delivery.id).where(Delivery.subscription_id == subscription.id)
        oldest = session.scalars(mine.order_by(Delivery.created_at).limit(4)).all()
        session.execute(update(Delivery).where(Delivery.id.in_(oldest)).values(state="delivered"))
        session.execute(
            update(Delivery)
            .where(Delivery.subscription_id == completed.id)
            .values(state="delivered", created_at=from_now(-deliveries.RETENTION_S - 1))
        )
        over = update(Subscription).where(Subscription.id == completed.id)
        session.execute(over.values(completed_at=from_now(-deliveries.RETENTION_S - 1)))
    in_transaction(deliveries.delete_old)
    with database.read() as session:
        counts = select(Delivery.state, func.count()).group_by(Delivery.state)
        assert dict(session.execute(counts).all()) == {"delivered": 2, "pending": 3, "failed": 1}
        assert session.get(Subscription, completed.id) is None


def test_a_subscription_to_a_deleted_job_ends(database, subscribe, make_job, in_transaction):
    job = make_job(State.PAUSED)
    subscription = subscribe(job_id=job.id, types=["job.failed"])
    with database.write() as session:
        session.delete(session.get(Job, job.id))
    in_transaction(deliveries.delete_old)
    with database.read() as session:
        assert session.get(Subscription, subscription.id) is None


def test_a_rotated_secret_is_used_beside_the_previous_one_for_a_day(
    database, pending, claimed, in_transaction
):
    rotated = in_transaction(subscriptions.rotate, pending.id)
    [claim] = claimed()
    assert claim.secrets == (rotated.secret, pending.secret)
    assert len({rotated.secret, pending.secret}) == 2
    with database.write() as session:
        session.execute(update(Subscription).values(previous_secret_until=from_now(-1)))
        session.execute(update(Delivery).values(claimed_until=from_now(-1)))
    [claim] = claimed()
    assert claim.secrets == (rotated.secret,)


@ON_SQLITE
def test_a_project_has_a_quota_of_subscriptions(subscribe, monkeypatch):
    monkeypatch.setattr(subscriptions, "MAX_SUBSCRIPTIONS", 1)
    subscribe()
    with pytest.raises(QuotaReached, match="quota of 1 subscriptions"):
        subscribe()
