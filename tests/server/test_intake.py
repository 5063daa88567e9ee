"""Jobs that are posted at one moment are written in one transaction, and each as if alone."""

import asyncio
from contextlib import contextmanager

import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from ampcore.spec import SpecInvalid
from server.datasets import Datasets
from server.errors import NotFound
from server.intake import Draft, Intake, Order
from store import projects
from store.audit import Actor
from store.idempotency import Keyed, KeyReused
from store.projects import QuotaExceeded
from store.tables import AuditEntry, EventRow, IdempotencyKey, Job

SPEC = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}


class Counted:
    """A database that says how often it was written to."""

    def __init__(self, database):
        self._database = database
        self.writes = 0

    @contextmanager
    def write(self):
        self.writes += 1
        with self._database.write() as session:
            yield session


@pytest.fixture
def counted(database):
    return Counted(database)


@pytest.fixture
def intake(counted, wake, tmp_path):
    return Intake(counted, Datasets(tmp_path), wake)


@pytest.fixture
def vision(database):
    """A project whose queue has room for one job."""
    with database.write() as session:
        projects.update(session, "vision", {"max_queued": 1})


def order(document=SPEC, project="default", name="ada", keyed=None):
    actor = Actor(project, "0123", name, "127.0.0.1", f"request-of-{name}")
    return Order(lambda: Draft(document, project), "job.submit", actor, keyed)


def post(intake, *orders):
    """What each was answered: the job's id, or an error."""

    async def post_all():
        taken = (intake.take(one) for one in orders)
        return await asyncio.gather(*taken, return_exceptions=True)

    return [
        one if isinstance(one, Exception) else one.headers["Location"].rpartition("/")[2]
        for one in asyncio.run(post_all())
    ]


def rows(database, *columns):
    with database.read() as session:
        return set(session.execute(select(*columns)))


def test_what_is_posted_at_one_moment_is_one_transaction(intake, counted, database, wake):
    ids = post(intake, *(order(name=f"person {number}") for number in range(20)))
    assert counted.writes == 1
    assert wake.sent == ids
    assert len(set(ids)) == 20
    people = {(job, f"person {n}", f"request-of-person {n}") for n, job in enumerate(ids)}
    assert rows(database, Job.id, Job.created_by, Job.request_id) == people
    assert rows(database, AuditEntry.target, AuditEntry.token_name, AuditEntry.request_id) == people
    assert rows(database, EventRow.job_id, EventRow.seq) == {(job, 1) for job in ids}


def test_what_is_wrong_with_one_is_told_to_that_one(intake, counted, wake):
    def of_a_job_that_is_gone():
        raise NotFound("There is no job.")

    lost = Order(of_a_job_that_is_gone, "job.clone", order().actor)
    told = post(intake, order(), order({"model": 1}), lost, order())
    assert [type(one) for one in told] == [str, SpecInvalid, NotFound, str]
    assert wake.sent == [told[0], told[3]]
    assert counted.writes == 1


def test_a_quota_refuses_those_that_are_too_many(intake, database, vision, wake):
    """Fails without the second try, one by one: then nobody gets in."""
    told = post(intake, order(), order(project="vision"), order(project="vision"), order())
    assert [type(one) for one in told] == [str, str, QuotaExceeded, str]
    assert rows(database, Job.id) == {(one,) for one in told if isinstance(one, str)}
    assert len(wake.sent) == 3


def test_requests_with_one_key_at_one_moment_post_one_job(intake, database):
    """Fails when both are written in one transaction, as if each had a key of its own."""
    keyed = Keyed("default", "key", "digest")
    first, again, other = post(intake, order(keyed=keyed), order(keyed=keyed), order())
    assert first == again
    assert rows(database, Job.id) == {(first,), (other,)}
    [location] = {headers["Location"] for (headers,) in answers(database)}
    assert location.endswith(first)


def test_a_key_that_is_of_another_request_refuses_its_own_job_alone(intake, database):
    [first] = post(intake, order(keyed=Keyed("default", "key", "digest")))
    other, refused = post(intake, order(), order(keyed=Keyed("default", "key", "another")))
    assert isinstance(refused, KeyReused)
    assert rows(database, Job.id) == {(first,), (other,)}


def test_what_was_posted_before_is_answered_beside_what_is_new(intake, database, wake):
    keyed = Keyed("default", "key", "digest")
    [first] = post(intake, order(keyed=keyed))
    told = post(intake, order(name="b"), order(keyed=keyed), order(name="c"))
    assert told[1] == first
    assert rows(database, Job.id) == {(one,) for one in told}
    assert wake.sent == [first, told[0], told[2]]


def answers(database):
    with database.read() as session:
        return session.execute(select(IdempotencyKey.headers)).all()


def test_a_database_that_is_away_is_told_to_all_and_nobody_is_asked_twice(
    intake, counted, monkeypatch
):
    """A commit whose answer was lost may have been done: it must not be tried again."""
    tries = []

    def away():
        tries.append(1)
        raise OperationalError("COMMIT", {}, ConnectionError())

    monkeypatch.setattr(counted, "write", away)
    assert [type(one) for one in post(intake, order(), order())] == [OperationalError] * 2
    assert len(tries) == 1
