import logging
import threading

import anyio
import pytest
from sqlalchemy import update

from ampcore.spec import Reason, State
from server.app import create_app
from server.reconcile import Reconciler
from server.settings import Settings
from server.tidy import WORKERS_GONE_S
from server.wake import CeleryWake
from store import attempts, jobs, workers
from store.clock import after
from store.retries import RETRIED, BackOff
from store.tables import Job, Worker

QUIET_S, LONG_QUIET_S = 1800.0, 7200.0
"""So long that no test stands still for it."""
LEASE_S = 0.9
"""So short that the calm before a loss is a moment."""


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    monkeypatch.setattr("server.resend.QUIET_S", QUIET_S)
    monkeypatch.setattr("server.resend.LONG_QUIET_S", LONG_QUIET_S)
    # A job that was lost is not due before the test says so.
    monkeypatch.setitem(RETRIED, Reason.WORKER_LOST, BackOff(first_s=3600.0, longest_s=3600.0))


@pytest.fixture
def reconciler(database, wake):
    """Rounds by hand, unless a test starts it."""
    return Reconciler(database, wake, every_s=0.01, lease_s=LEASE_S)


def put(database, job_id, **values):
    with database.write() as session:
        session.execute(update(Job).where(Job.id == job_id).values(**values))


@pytest.fixture
def silent_job(database, make_job):
    """A queued job for which no message went out for a while."""

    def make(quiet_s=QUIET_S + 1, **parts):
        job_id = make_job(**parts).id
        put(database, job_id, woken_at=after(-quiet_s))
        return job_id

    return make


def register(database, worker_id="w", slots=1, queues=("default",)):
    known = {"hostname": "h", "pid": 1, "version": "1"}
    with database.write() as session:
        workers.register(session, worker_id, slots=slots, queues=queues, **known)


def test_a_job_whose_message_was_never_sent_gets_one(database, reconciler, make_job, wake):
    job_id = make_job().id
    put(database, job_id, woken_at=None)
    make_job(State.RUNNING)
    reconciler.resend()
    assert (wake.sent, wake.queues) == ([job_id], ["default"])


def test_a_job_that_was_just_sent_is_left_alone(reconciler, make_job, silent_job, wake):
    make_job()
    silent_job()
    reconciler.resend()
    reconciler.resend()
    assert len(wake.sent) == 1


def test_each_queue_is_rung_by_itself(reconciler, silent_job, wake):
    made = {silent_job(runtime={"queue": name}): name for name in ("big", "small")}
    reconciler.resend()
    assert dict(zip(wake.sent, wake.queues, strict=True)) == made


def test_nothing_is_sent_again_while_messages_wait_for_busy_workers(
    reconciler, silent_job, wake, monkeypatch
):
    silent_job()
    other = silent_job(runtime={"queue": "big"})
    monkeypatch.setattr(wake, "waiting", lambda queue: int(queue == "default"))
    reconciler.resend()
    assert wake.sent == [other]


def test_no_more_messages_go_out_than_there_are_slots_to_hear_them(
    database, reconciler, silent_job, wake
):
    made = [silent_job() for _ in range(5)]
    register(database, slots=2)
    reconciler.resend()
    assert len(wake.sent) == 2
    reconciler.resend()
    reconciler.resend()
    assert sorted(wake.sent) == sorted(made)


def test_a_job_that_failed_is_rung_as_soon_as_it_is_due(database, reconciler, make_job, wake):
    job_id = make_job(State.RUNNING).id
    put(database, job_id, lease_expires_at=after(-1))
    reconciler.expire()
    reconciler.resend()
    assert wake.sent == []
    put(database, job_id, not_before=after(-0.01))
    reconciler.resend()
    assert wake.sent == [job_id]


def test_a_job_given_back_is_rung_at_once(database, reconciler, make_job, wake):
    job_id = make_job(State.RUNNING).id
    with database.write() as session:
        attempts.hand_back(session, job_id, 1)
    reconciler.resend()
    assert wake.sent == [job_id]


FLOAT16 = {"precision": {"policy": "mixed_float16"}}


def test_a_float16_job_is_rung_where_a_gpu_is(database, reconciler, silent_job, wake):
    silent_job(**FLOAT16)
    reconciler.resend()
    register(database, "gpu", queues=["default", "gpu"])
    silent_job(**FLOAT16)
    reconciler.resend()
    assert wake.queues == ["default", "gpu"]


def test_a_float16_job_goes_to_any_worker_when_no_gpu_becomes_free(
    database, reconciler, silent_job, wake, monkeypatch
):
    register(database, "gpu", queues=["default", "gpu"])
    monkeypatch.setattr(wake, "waiting", lambda queue: int(queue == "gpu"))
    silent_job(**FLOAT16)
    reconciler.resend()
    assert wake.sent == []
    late = silent_job(LONG_QUIET_S + 1, **FLOAT16)
    reconciler.resend()
    assert (wake.sent, wake.queues) == ([late], ["default"])


def test_nobody_is_lost_until_all_has_gone_well_for_a_while(database, make_job, wake, monkeypatch):
    job_id = make_job(State.RUNNING).id
    put(database, job_id, lease_expires_at=after(-1))
    times = iter([0.0, 0.0, 5.0, 9.0, 30.0, 35.0, 40.0])  # it stood still from 9 to 30
    reconciler = Reconciler(database, wake, clock=lambda: next(times))
    expired = []
    monkeypatch.setattr(reconciler, "expire", lambda: expired.append(1))
    for _ in range(5):
        reconciler._expire_in_calm()
    assert expired == []
    reconciler._expire_in_calm()
    assert expired == [1]


def test_on_a_machine_that_is_always_slow_workers_are_lost_all_the_same(
    database, make_job, wake, monkeypatch
):
    """Fails where each slow round breaks the calm: then it never comes."""
    put(database, make_job(State.RUNNING).id, lease_expires_at=after(-1))
    times = iter([0.0, 0.0, *(3.0 * number for number in range(1, 6)), 60.0])
    moments = (after(3.0 * number) for number in range(6))
    monkeypatch.setattr("server.reconcile.now", lambda: next(moments, after(60)))
    reconciler = Reconciler(database, wake, lease_s=LEASE_S, clock=lambda: next(times))
    expired = []
    monkeypatch.setattr(reconciler, "expire", lambda: expired.append(1))
    for _ in range(6):
        reconciler._expire_in_calm()
    assert expired
    expired.clear()
    reconciler._expire_in_calm()  # and where it stands still, they are not
    assert expired == []


@pytest.mark.parametrize("jump_s", [3600, -3600])
def test_nobody_is_lost_because_the_databases_clock_jumps(
    database, make_job, wake, monkeypatch, jump_s
):
    """As when a machine has slept: its monotonic clock has, too, and every lease is over."""
    job_id = make_job(State.RUNNING).id
    times = iter([0.0, *range(12), 16.0, 21.0])
    reconciler = Reconciler(database, wake, clock=lambda: next(times))
    for _ in range(11):
        reconciler._expire_in_calm()
    put(database, job_id, lease_expires_at=after(-1))
    monkeypatch.setattr("server.reconcile.now", lambda: after(jump_s))
    for _ in range(2):
        reconciler._expire_in_calm()
    assert reconciler.leases_lost == 0
    reconciler._expire_in_calm()
    assert reconciler.leases_lost == 1


def test_a_job_whose_worker_is_lost_goes_on_elsewhere(database, reconciler, make_job):
    job_id = make_job(State.RUNNING).id
    put(database, job_id, lease_expires_at=after(-1))
    reconciler.expire()
    reconciler.expire()
    assert reconciler.leases_lost == 1
    with database.read() as session:
        assert jobs.get(session, job_id).state == State.QUEUED


def test_two_reconcilers_do_the_work_once(database, wake, make_job, silent_job):
    lost_jobs = [make_job(State.RUNNING).id for _ in range(10)]
    for job_id in lost_jobs:
        put(database, job_id, lease_expires_at=after(-1))
    silent_job()
    both = [Reconciler(database, wake) for _ in range(2)]

    def one_round(reconciler):
        reconciler.expire()
        reconciler.resend()
        reconciler.tidy()

    threads = [threading.Thread(target=one_round, args=[each]) for each in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(reconciler.leases_lost for reconciler in both) == 10
    with database.read() as session:
        assert {jobs.get(session, job_id).failures for job_id in lost_jobs} == {1}


def test_what_nobody_asks_for_any_more_is_deleted_now_and_then(database, wake):
    now = [1000.0]
    reconciler = Reconciler(database, wake, clock=lambda: now[0])
    register(database, "gone")
    with database.write() as session:
        session.execute(update(Worker).values(last_seen_at=after(-WORKERS_GONE_S - 1)))

    def there():
        with database.read() as session:
            return [worker.id for worker, _ in workers.listing(session)]

    reconciler.tidy()
    assert there() == []
    register(database, "gone")
    with database.write() as session:
        session.execute(update(Worker).values(last_seen_at=after(-WORKERS_GONE_S - 1)))
    reconciler.tidy()
    assert there() == ["gone"]
    now[0] += 61
    reconciler.tidy()
    assert there() == []


def test_jobs_posted_while_redis_was_gone_are_sent_when_it_is_back(
    reconciler, silent_job, wake, wait_until, caplog
):
    wake.gone = True
    job_id = silent_job()
    with caplog.at_level(logging.INFO, logger="server.reconcile"):
        reconciler.start()
        wait_until(lambda: "fails" in caplog.text)
        rounds = wait_for_rounds(reconciler, wait_until)
        wake.gone = False
        wait_until(lambda: wake.sent == [job_id])
        wait_until(lambda: "works again" in caplog.text)
        reconciler.stop()
    assert rounds > 3
    assert caplog.text.count("fails, and is tried again quietly") == 1


def wait_for_rounds(reconciler, wait_until, more=5):
    """Let some rounds go by; how many did."""
    went_by = []
    work = reconciler.resend
    reconciler.resend = lambda: (went_by.append(1), work())
    wait_until(lambda: len(went_by) >= more)
    return len(went_by)


def test_an_error_nobody_expected_does_not_end_the_thread(reconciler, wait_until, caplog):
    reconciler.resend = lambda: 1 / 0
    reconciler.start()
    wait_until(lambda: caplog.text.count("ZeroDivisionError") > 3)
    reconciler.stop()
    assert reconciler.rounds_at is None


def test_a_round_that_went_well_is_remembered(reconciler, wait_until):
    reconciler.start()
    first = wait_until(lambda: reconciler.rounds_at)
    wait_until(lambda: reconciler.rounds_at > first)
    reconciler.stop()


def test_messages_that_redis_forgot_are_sent_again(database, silent_job, redis_url):
    import redis

    wake = CeleryWake(redis_url)
    reconciler = Reconciler(database, wake)
    job_id = silent_job()
    reconciler.resend()
    assert wake.waiting() == 1
    with redis.Redis.from_url(redis_url) as connection:
        connection.flushall()
    put(database, job_id, woken_at=after(-QUIET_S - 1))
    reconciler.resend()
    reconciler.resend()
    assert wake.waiting() == 1
    wake.close()


@pytest.fixture
def app(database_url, wake, tmp_path):
    return create_app(Settings(database_url, "redis://127.0.0.1:1/0", tmp_path), wake=wake)


def test_the_application_reconciles_in_the_background(app, silent_job, wake, wait_until):
    job_id = silent_job()

    async def live():
        async with app.router.lifespan_context(app):
            await anyio.to_thread.run_sync(wait_until, lambda: wake.sent == [job_id])

    anyio.run(live)
