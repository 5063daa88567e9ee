import logging

import anyio
import pytest
from sqlalchemy import update

from ampcore.spec import State
from server.app import create_app
from server.reconcile import BATCH, LONG_QUIET_S, QUIET_S, Reconciler
from server.settings import Settings
from server.wake import CeleryWake
from store import jobs
from store.clock import after
from store.tables import Job


@pytest.fixture
def reconciler(database, wake):
    """Rounds by hand, unless a test starts it."""
    return Reconciler(database, wake, every_s=0.01, calm_s=0.0)


def put(database, job_id, **values):
    with database.write() as session:
        session.execute(update(Job).where(Job.id == job_id).values(**values))


def test_a_job_whose_message_was_never_sent_gets_one(reconciler, make_job, wake):
    job_id = make_job().id
    make_job(State.RUNNING)
    reconciler.resend()
    assert wake.sent == [job_id]


def test_a_job_that_was_just_sent_is_left_alone(reconciler, make_job, wake):
    make_job()
    reconciler.resend()
    reconciler.resend()
    assert len(wake.sent) == 1


def test_a_message_that_was_lost_is_sent_again(database, reconciler, make_job, wake):
    job_id = make_job().id
    put(database, job_id, woken_at=after(-QUIET_S - 1))
    reconciler.resend()
    assert wake.sent == [job_id]


def test_nothing_is_sent_again_while_messages_wait_for_busy_workers(
    database, make_job, wake, monkeypatch
):
    put(database, make_job().id, woken_at=after(-QUIET_S - 1))
    monkeypatch.setattr(wake, "waiting", lambda: 1)
    Reconciler(database, wake).resend()
    assert wake.sent == []


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


def test_a_message_lost_among_others_is_sent_again_after_a_while(
    database, make_job, wake, monkeypatch
):
    job_id = make_job().id
    put(database, job_id, woken_at=after(-LONG_QUIET_S - 1))
    put(database, make_job().id, woken_at=after(-QUIET_S - 1))
    monkeypatch.setattr(wake, "waiting", lambda: 1)
    Reconciler(database, wake).resend()
    assert wake.sent == [job_id]


def test_a_round_sends_a_bounded_number(database, make_job, wake):
    for _ in range(BATCH + 1):
        make_job()
    Reconciler(database, wake).resend()
    assert len(wake.sent) == BATCH


def test_a_job_whose_worker_is_lost_is_ended(database, reconciler, make_job):
    job_id = make_job(State.RUNNING).id
    put(database, job_id, lease_expires_at=after(-1))
    reconciler.expire()
    with database.read() as session:
        assert jobs.get(session, job_id).state == State.FAILED


def test_jobs_posted_while_redis_was_gone_are_sent_when_it_is_back(
    reconciler, make_job, wake, wait_until, caplog
):
    wake.gone = True
    job_id = make_job().id
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
    work = reconciler.expire
    reconciler.expire = lambda: (went_by.append(1), work())
    wait_until(lambda: len(went_by) >= more)
    return len(went_by)


def test_an_error_nobody_expected_does_not_end_the_thread(reconciler, wait_until, caplog):
    reconciler.expire = lambda: 1 / 0
    reconciler.start()
    wait_until(lambda: caplog.text.count("ZeroDivisionError") > 3)
    reconciler.stop()


def test_messages_that_redis_forgot_are_sent_again(database, make_job, redis_url, private_redis):
    import redis

    wake = CeleryWake(redis_url)
    reconciler = Reconciler(database, wake)
    job_id = make_job().id
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


def test_the_application_reconciles_in_the_background(app, make_job, wake, wait_until):
    job_id = make_job().id

    async def live():
        async with app.router.lifespan_context(app):
            await anyio.to_thread.run_sync(wait_until, lambda: wake.sent == [job_id])

    anyio.run(live)
