import logging
import threading
from types import SimpleNamespace

import anyio
import pytest
from sqlalchemy import select, update

from ampspec.jobs import Reason, State
from infra.storage import Storage
from server.app import create_app
from server.background.cleanup import WORKER_RETENTION_S
from server.background.counter import ServiceCounter
from server.background.reconciler import TASK, Reconciler
from server.background.study_runner import StudyRunner
from server.dispatch import CeleryDispatcher
from server.settings import Settings
from store import leaders, workers
from store.clock import from_now
from store.files import file_removals
from store.gangs import gang_members
from store.jobs import attempts, jobs, queue
from store.jobs.retries import BACKOFF_BY_REASON, Backoff
from store.scheduling import fair_share
from store.tables import Job, Leader, Worker
from tests.databases import ON_SQLITE
from tests.waiting import DEADLINE_S

REDISPATCH_AFTER_S, FALLBACK_AFTER_S = 1800.0, 7200.0
"""Longer than any test may be stalled."""
LEASE_S = 0.9
"""So short that the grace after an outage is a moment."""


@pytest.fixture(autouse=True)
def _long_intervals(monkeypatch):
    monkeypatch.setattr("server.background.redispatch.REDISPATCH_AFTER_S", REDISPATCH_AFTER_S)
    monkeypatch.setattr("server.background.redispatch.FALLBACK_AFTER_S", FALLBACK_AFTER_S)
    # A job whose lease expired is not due before the test sets its time.
    monkeypatch.setitem(
        BACKOFF_BY_REASON, Reason.WORKER_LOST, Backoff(first_s=3600.0, longest_s=3600.0)
    )


@pytest.fixture
def reconciler(database, dispatcher):
    """A reconciler whose rounds the test calls, unless it starts the thread."""
    return Reconciler(database, dispatcher, every_s=0.01, lease_s=LEASE_S)


def put(database, job_id, **values):
    with database.write() as session:
        session.execute(update(Job).where(Job.id == job_id).values(**values))


@pytest.fixture
def undispatched_job(database, make_job):
    """A queued job for which no message was sent for a while."""

    def make(silent_for_s=REDISPATCH_AFTER_S + 1, **parts):
        job_id = make_job(**parts).id
        put(database, job_id, dispatched_at=from_now(-silent_for_s))
        return job_id

    return make


def register(database, worker_id="w", slots=1, queues=("default",)):
    known = {"hostname": "h", "pid": 1, "version": "1"}
    with database.write() as session:
        workers.register(session, worker_id, slots=slots, queues=queues, **known)


@ON_SQLITE
def test_a_job_whose_message_was_never_sent_is_dispatched(
    database, reconciler, make_job, dispatcher
):
    job_id = make_job().id
    put(database, job_id, dispatched_at=None)
    make_job(State.RUNNING)
    reconciler.redispatch()
    assert (dispatcher.sent, dispatcher.queues) == ([job_id], ["default"])


def test_jobs_that_an_older_version_has_queued_get_their_turns(database, reconciler, make_job):
    """On PostgreSQL they would go after all later jobs of their project."""
    old, urgent = make_job(), make_job(runtime={"priority": 9})
    put(database, old.id, turn_at=None, created_at=from_now(-60.0))
    put(database, urgent.id, turn_at=None)
    later, ended = make_job(), make_job(State.CANCELLED)
    put(database, ended.id, turn_at=None)
    reconciler._round()
    with database.write() as session:
        rows = {job.id: jobs.get(session, job.id) for job in (old, urgent, ended)}
        for row in (rows[old.id], rows[urgent.id]):
            assert row.turn_at == fair_share.turn_at(row.created_at, row.priority)
        assert rows[ended.id].turn_at is None
        claimed = [attempts.claim_next(session, "w", ["default"]).id for _ in range(3)]
    assert claimed == [urgent.id, old.id, later.id]


@ON_SQLITE
def test_a_job_that_was_just_dispatched_is_not_dispatched_again(
    reconciler, make_job, undispatched_job, dispatcher
):
    make_job()
    undispatched_job()
    reconciler.redispatch()
    reconciler.redispatch()
    assert len(dispatcher.sent) == 1


@ON_SQLITE
def test_each_queue_gets_the_messages_of_its_own_jobs(reconciler, undispatched_job, dispatcher):
    made = {undispatched_job(runtime={"queue": name}): name for name in ("big", "small")}
    reconciler.redispatch()
    assert dict(zip(dispatcher.sent, dispatcher.queues, strict=True)) == made


@ON_SQLITE
def test_nothing_is_sent_to_a_queue_with_pending_messages(
    reconciler, undispatched_job, dispatcher, monkeypatch
):
    undispatched_job()
    other = undispatched_job(runtime={"queue": "big"})
    monkeypatch.setattr(dispatcher, "pending_messages", lambda queue: int(queue == "default"))
    reconciler.redispatch()
    assert dispatcher.sent == [other]


@ON_SQLITE
def test_the_jobs_of_a_queue_with_pending_messages_are_not_read(
    database, reconciler, undispatched_job, dispatcher, monkeypatch
):
    """Fails if each round reads the first jobs of a long queue whose workers are busy."""
    queues_read, read = [], queue.undispatched_jobs

    def record(session, name, **options):
        queues_read.append(name)
        return read(session, name, **options)

    monkeypatch.setattr(queue, "undispatched_jobs", record)
    undispatched_job()
    undispatched_job(runtime={"queue": "big"})
    monkeypatch.setattr(dispatcher, "pending_messages", lambda name: int(name != "gpu"))
    reconciler.redispatch()
    assert queues_read == []
    register(database, "gpu", queues=["default", "gpu"])
    reconciler.redispatch()  # a job may suit the idle worker with a GPU
    assert queues_read == ["default"]


@ON_SQLITE
def test_no_more_messages_are_sent_than_there_are_slots(
    database, reconciler, undispatched_job, dispatcher
):
    made = [undispatched_job() for _ in range(5)]
    register(database, slots=2)
    reconciler.redispatch()
    assert len(dispatcher.sent) == 2
    reconciler.redispatch()
    reconciler.redispatch()
    assert sorted(dispatcher.sent) == sorted(made)


@ON_SQLITE
def test_a_retried_job_is_dispatched_as_soon_as_it_is_due(
    database, reconciler, make_job, dispatcher
):
    job_id = make_job(State.RUNNING).id
    put(database, job_id, lease_expires_at=from_now(-1))
    reconciler.expire()
    reconciler.redispatch()
    assert dispatcher.sent == []
    put(database, job_id, not_before=from_now(-0.01))
    reconciler.redispatch()
    assert dispatcher.sent == [job_id]


@ON_SQLITE
def test_a_job_that_was_requeued_is_dispatched_at_once(database, reconciler, make_job, dispatcher):
    job_id = make_job(State.RUNNING).id
    with database.write() as session:
        attempts.requeue(session, job_id, 1)
    reconciler.redispatch()
    assert dispatcher.sent == [job_id]


FLOAT16 = {"precision": {"policy": "mixed_float16"}}


@ON_SQLITE
def test_a_float16_job_is_dispatched_to_the_gpu_queue_if_a_worker_serves_it(
    database, reconciler, undispatched_job, dispatcher
):
    undispatched_job(**FLOAT16)
    reconciler.redispatch()
    register(database, "gpu", queues=["default", "gpu"])
    undispatched_job(**FLOAT16)
    reconciler.redispatch()
    assert dispatcher.queues == ["default", "gpu"]


@ON_SQLITE
def test_a_float16_job_goes_to_any_worker_when_no_gpu_becomes_free(
    database, reconciler, undispatched_job, dispatcher, monkeypatch
):
    register(database, "gpu", queues=["default", "gpu"])
    monkeypatch.setattr(dispatcher, "pending_messages", lambda queue: int(queue == "gpu"))
    undispatched_job(**FLOAT16)
    reconciler.redispatch()
    assert dispatcher.sent == []
    late = undispatched_job(FALLBACK_AFTER_S + 1, **FLOAT16)
    reconciler.redispatch()
    assert (dispatcher.sent, dispatcher.queues) == ([late], ["default"])


@ON_SQLITE
def test_no_lease_expires_during_the_grace_after_an_outage(
    database, make_job, dispatcher, monkeypatch
):
    job_id = make_job(State.RUNNING).id
    put(database, job_id, lease_expires_at=from_now(-1))
    times = iter([0.0, 0.0, 5.0, 9.0, 30.0, 35.0, 40.0])  # the process was stalled from 9 to 30
    reconciler = Reconciler(database, dispatcher, clock=lambda: next(times))
    expired = []
    monkeypatch.setattr(reconciler, "expire", lambda: expired.append(1))
    for _ in range(5):
        reconciler._expire_after_outage_grace()
    assert expired == []
    reconciler._expire_after_outage_grace()
    assert expired == [1]


@ON_SQLITE
def test_leases_expire_on_a_machine_that_is_always_slow(
    database, make_job, dispatcher, monkeypatch
):
    """Fails if each slow round restarts the grace: it would never end."""
    put(database, make_job(State.RUNNING).id, lease_expires_at=from_now(-1))
    times = iter([0.0, 0.0, *(3.0 * number for number in range(1, 6)), 60.0])
    moments = (from_now(3.0 * number) for number in range(6))
    monkeypatch.setattr("server.background.reconciler.now", lambda: next(moments, from_now(60)))
    reconciler = Reconciler(database, dispatcher, lease_s=LEASE_S, clock=lambda: next(times))
    expired = []
    monkeypatch.setattr(reconciler, "expire", lambda: expired.append(1))
    for _ in range(6):
        reconciler._expire_after_outage_grace()
    assert expired
    expired.clear()
    reconciler._expire_after_outage_grace()  # but not after a stall
    assert expired == []


@pytest.mark.parametrize("jump_s", [3600, -3600])
def test_no_lease_expires_because_the_clock_of_the_database_jumps(
    database, make_job, dispatcher, monkeypatch, jump_s
):
    """As after a suspend, during which the monotonic clock stands still: every lease is over."""
    job_id = make_job(State.RUNNING).id
    times = iter([0.0, *range(12), 16.0, 21.0])
    reconciler = Reconciler(database, dispatcher, clock=lambda: next(times))
    for _ in range(11):
        reconciler._expire_after_outage_grace()
    put(database, job_id, lease_expires_at=from_now(-1))
    monkeypatch.setattr("server.background.reconciler.now", lambda: from_now(jump_s))
    for _ in range(2):
        reconciler._expire_after_outage_grace()
    assert reconciler.leases_expired == 0
    reconciler._expire_after_outage_grace()
    assert reconciler.leases_expired == 1


@ON_SQLITE
def test_a_job_of_a_lost_worker_is_queued_again(database, reconciler, make_job):
    job_id = make_job(State.RUNNING).id
    put(database, job_id, lease_expires_at=from_now(-1))
    reconciler.expire()
    reconciler.expire()
    assert reconciler.leases_expired == 1
    with database.read() as session:
        assert jobs.get(session, job_id).state == State.QUEUED


def test_a_round_that_ends_no_lease_begins_no_transaction_for_writing(
    database, reconciler, make_job, monkeypatch
):
    """Fails if each round takes the one write lock of SQLite."""
    job_id = make_job(State.RUNNING).id
    with monkeypatch.context() as patch:
        patch.setattr(database, "write", lambda: pytest.fail("a transaction for writing"))
        reconciler.expire()
    put(database, job_id, lease_expires_at=from_now(-1))
    reconciler.expire()
    assert reconciler.leases_expired == 1


def test_two_reconcilers_do_the_work_once(database, dispatcher, make_job, undispatched_job):
    expired_jobs = [make_job(State.RUNNING).id for _ in range(10)]
    for job_id in expired_jobs:
        put(database, job_id, lease_expires_at=from_now(-1))
    undispatched_job()
    both = [Reconciler(database, dispatcher) for _ in range(2)]

    def one_round(reconciler):
        reconciler.expire()
        reconciler.redispatch()
        reconciler.clean_up()

    threads = [threading.Thread(target=one_round, args=[each]) for each in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(reconciler.leases_expired for reconciler in both) == 10
    with database.read() as session:
        assert {jobs.get(session, job_id).failures for job_id in expired_jobs} == {1}


@ON_SQLITE
def test_only_the_server_that_leads_does_the_work(database, dispatcher, undispatched_job):
    """Fails if each of several servers does every round."""
    undispatched_job()
    first, second = (Reconciler(database, dispatcher) for _ in range(2))
    rounds = []
    for name, reconciler in (("first", first), ("second", second)):
        reconciler.redispatch = lambda name=name: rounds.append(name)
    for reconciler in (first, second, first, second):
        reconciler._round()
    assert rounds == ["first", "first"]
    assert second.last_success_at is not None
    leaders.resign(database, TASK, first._server_id)
    second._round()
    assert rounds == ["first", "first", "second"]


@ON_SQLITE
def test_a_server_that_stops_is_followed_at_once(database, reconciler, wait_until):
    reconciler.start()
    wait_until(lambda: reconciler.last_success_at)
    assert not leaders.lead(database, TASK, "other")
    reconciler.stop()
    assert leaders.lead(database, TASK, "other")


@ON_SQLITE
def test_a_server_whose_reconciler_hangs_leads_no_more(database, dispatcher):
    """Fails if its other threads renew the lease of the leader: no lease would expire any more."""
    reconciler = Reconciler(database, dispatcher, server_id="hangs")
    assert reconciler._leads()
    with database.write() as session:
        session.execute(
            update(Leader).values(lease_expires_at=from_now(leaders.LEADER_LEASE_S / 4))
        )
        expires_at = session.scalars(select(Leader.lease_expires_at)).one()
    counter = ServiceCounter(database, "hangs")
    runner = StudyRunner(SimpleNamespace(database=database, keep_plans_of=set), server_id="hangs")
    counter.count()
    runner.advance_all()
    with database.read() as session:
        assert session.scalars(select(Leader.lease_expires_at)).one() == expires_at
    assert reconciler._leads()
    with database.read() as session:
        assert session.scalars(select(Leader.lease_expires_at)).one() > expires_at


@ON_SQLITE
def test_a_storage_that_hangs_does_not_stop_the_reconciler(
    *, app, database, undispatched_job, dispatcher, wait_until, monkeypatch
):
    """Fails if the reconciler deletes files itself."""
    hangs, may_go_on = threading.Event(), threading.Event()

    def hang(*_):
        hangs.set()
        may_go_on.wait(DEADLINE_S)

    monkeypatch.setattr(Storage, "remove_folder", hang)
    with database.write() as session:
        file_removals.schedule_after(session, 0.0, "gone", None)

    def work():
        wait_until(hangs.is_set)
        job_id = undispatched_job()
        wait_until(lambda: dispatcher.sent == [job_id])
        may_go_on.set()

    async def run():
        async with app.router.lifespan_context(app):
            await anyio.to_thread.run_sync(work)

    anyio.run(run)


@ON_SQLITE
def test_a_server_that_takes_over_has_observed_the_last_outage(
    database, dispatcher, make_job, monkeypatch
):
    """Fails if the grace after an outage begins only when a server leads."""
    put(database, make_job(State.RUNNING).id, lease_expires_at=from_now(-1))
    seconds = iter(range(1000))
    first = Reconciler(database, dispatcher)
    second = Reconciler(database, dispatcher, clock=lambda: float(next(seconds)))
    moments = (from_now(float(number)) for number in range(1000))
    monkeypatch.setattr("server.background.reconciler.now", lambda: next(moments))
    assert first._leads()
    for _ in range(12):
        second._round()
    assert second.leases_expired == 0
    leaders.resign(database, TASK, first._server_id)
    second._round()
    assert second.leases_expired == 1


@ON_SQLITE
def test_slots_are_reserved_for_a_gang(database, reconciler, make_job):
    job_id = make_job(runtime={"workers": 2}).id
    for name in ("w0", "w1"):
        register(database, name)
        with database.write() as session:
            workers.heartbeat(session, name, hardware={"gang_host": "127.0.0.1"})
    reconciler.place_gangs()
    with database.read() as session:
        assert [one.worker_id for one in gang_members.listing(session, job_id)] == ["w0", "w1"]


@ON_SQLITE
def test_no_message_is_sent_for_a_gang(database, reconciler, make_job, dispatcher):
    job_id = make_job(runtime={"workers": 2}).id
    put(database, job_id, dispatched_at=None)
    reconciler.redispatch()
    assert dispatcher.sent == []


@ON_SQLITE
def test_workers_not_seen_for_long_are_deleted_once_a_minute(database, dispatcher):
    now = [1000.0]
    reconciler = Reconciler(database, dispatcher, clock=lambda: now[0])
    register(database, "gone")
    with database.write() as session:
        session.execute(update(Worker).values(last_seen_at=from_now(-WORKER_RETENTION_S - 1)))

    def worker_ids():
        with database.read() as session:
            return [worker.id for worker, _ in workers.listing(session)]

    reconciler.clean_up()
    assert worker_ids() == []
    register(database, "gone")
    with database.write() as session:
        session.execute(update(Worker).values(last_seen_at=from_now(-WORKER_RETENTION_S - 1)))
    reconciler.clean_up()
    assert worker_ids() == ["gone"]
    now[0] += 61
    reconciler.clean_up()
    assert worker_ids() == []


@ON_SQLITE
def test_jobs_submitted_during_a_redis_outage_are_dispatched_afterwards(
    reconciler, undispatched_job, dispatcher, wait_until, caplog
):
    dispatcher.gone = True
    job_id = undispatched_job()
    with caplog.at_level(logging.INFO, logger="server.background.reconciler"):
        reconciler.start()
        wait_until(lambda: "failed" in caplog.text)
        count = wait_for_rounds(reconciler, wait_until)
        dispatcher.gone = False
        wait_until(lambda: dispatcher.sent == [job_id])
        wait_until(lambda: "works again" in caplog.text)
        reconciler.stop()
    assert count > 3
    assert caplog.text.count("failed; retrying without further log lines") == 1


def wait_for_rounds(reconciler, wait_until, more=5):
    """Wait for `more` rounds; returns how many there were."""
    rounds = []
    work = reconciler.redispatch
    reconciler.redispatch = lambda: (rounds.append(1), work())
    wait_until(lambda: len(rounds) >= more)
    return len(rounds)


@ON_SQLITE
def test_an_unexpected_error_does_not_end_the_thread(reconciler, wait_until, caplog):
    rounds = []
    reconciler.redispatch = lambda: rounds.append(1) or 1 / 0
    reconciler.start()
    wait_until(lambda: len(rounds) > 3)
    reconciler.stop()
    assert caplog.text.count("ZeroDivisionError") == 1
    assert reconciler.last_success_at is None


@ON_SQLITE
def test_the_time_of_the_last_successful_round_is_recorded(reconciler, wait_until):
    reconciler.start()
    first = wait_until(lambda: reconciler.last_success_at)
    wait_until(lambda: reconciler.last_success_at > first)
    reconciler.stop()


@ON_SQLITE
def test_messages_that_redis_lost_are_sent_again(database, undispatched_job, redis_url):
    import redis

    dispatcher = CeleryDispatcher(redis_url)
    reconciler = Reconciler(database, dispatcher)
    job_id = undispatched_job()
    reconciler.redispatch()
    assert dispatcher.pending_messages() == 1
    with redis.Redis.from_url(redis_url) as connection:
        connection.flushall()
    put(database, job_id, dispatched_at=from_now(-REDISPATCH_AFTER_S - 1))
    reconciler.redispatch()
    reconciler.redispatch()
    assert dispatcher.pending_messages() == 1
    dispatcher.close()


@pytest.fixture
def app(database_url, dispatcher, tmp_path):
    return create_app(
        Settings(database_url=database_url, redis_url="redis://127.0.0.1:1/0", data_dir=tmp_path),
        dispatcher=dispatcher,
    )


@ON_SQLITE
def test_the_application_reconciles_in_the_background(
    app, undispatched_job, dispatcher, wait_until
):
    job_id = undispatched_job()

    async def run():
        async with app.router.lifespan_context(app):
            await anyio.to_thread.run_sync(wait_until, lambda: dispatcher.sent == [job_id])

    anyio.run(run)
