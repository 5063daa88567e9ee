"""Concurrent submissions share a transaction, and each gets its own response or error."""

import asyncio
from contextlib import contextmanager

import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from ampcore.spec import SpecValidationError
from server.dataset_folder import DatasetFolder
from server.errors import NotFound
from server.jobs.submission import JobDraft, JobSubmitter, Submission
from store import projects
from store.audit import Actor
from store.idempotency import IdempotentRequest, KeyReused
from store.projects import QuotaExceeded
from store.tables import AuditEntry, EventRow, IdempotencyKey, Job

SPEC = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}


class CountingDatabase:
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
def counting_database(database):
    return CountingDatabase(database)


@pytest.fixture
def submitter(counting_database, dispatcher, tmp_path):
    return JobSubmitter(counting_database, DatasetFolder(tmp_path), dispatcher)


@pytest.fixture
def vision(database):
    """A project whose queue has room for one job."""
    with database.write() as session:
        projects.update(session, "vision", {"max_queued": 1})


def submission(document=SPEC, project="default", name="ada", idempotent_request=None):
    actor = Actor(project, "0123", name, "127.0.0.1", f"request-of-{name}")
    return Submission(lambda: JobDraft(document, project), "job.submit", actor, idempotent_request)


def post(submitter, *submissions):
    """What each was answered: the job's id, or an error."""

    async def post_all():
        taken = (submitter.submit(one) for one in submissions)
        return await asyncio.gather(*taken, return_exceptions=True)

    return [
        one if isinstance(one, Exception) else one.headers["Location"].rpartition("/")[2]
        for one in asyncio.run(post_all())
    ]


def rows(database, *columns):
    with database.read() as session:
        return set(session.execute(select(*columns)))


def test_what_is_posted_at_one_moment_is_one_transaction(
    submitter, counting_database, database, dispatcher
):
    ids = post(submitter, *(submission(name=f"person {number}") for number in range(20)))
    assert counting_database.writes == 1
    assert dispatcher.sent == ids
    assert len(set(ids)) == 20
    people = {(job, f"person {n}", f"request-of-person {n}") for n, job in enumerate(ids)}
    assert rows(database, Job.id, Job.created_by, Job.request_id) == people
    assert rows(database, AuditEntry.target, AuditEntry.token_name, AuditEntry.request_id) == people
    assert rows(database, EventRow.job_id, EventRow.seq) == {(job, 1) for job in ids}


def test_an_invalid_submission_fails_alone(submitter, counting_database, dispatcher):
    def of_a_job_that_is_gone():
        raise NotFound("There is no job.")

    lost = Submission(of_a_job_that_is_gone, "job.clone", submission().actor)
    told = post(submitter, submission(), submission({"model": 1}), lost, submission())
    assert [type(one) for one in told] == [str, SpecValidationError, NotFound, str]
    assert dispatcher.sent == [told[0], told[3]]
    assert counting_database.writes == 1


def test_a_quota_refuses_those_that_are_too_many(submitter, database, vision, dispatcher):
    """Fails without the second try, one by one: then nobody gets in."""
    told = post(
        submitter,
        submission(),
        submission(project="vision"),
        submission(project="vision"),
        submission(),
    )
    assert [type(one) for one in told] == [str, str, QuotaExceeded, str]
    assert rows(database, Job.id) == {(one,) for one in told if isinstance(one, str)}
    assert len(dispatcher.sent) == 3


def test_requests_with_one_key_at_one_moment_post_one_job(submitter, database):
    """Fails when both are written in one transaction, as if each had a key of its own."""
    idempotent_request = IdempotentRequest("default", "key", "digest")
    first, again, other = post(
        submitter,
        submission(idempotent_request=idempotent_request),
        submission(idempotent_request=idempotent_request),
        submission(),
    )
    assert first == again
    assert rows(database, Job.id) == {(first,), (other,)}
    [location] = {headers["Location"] for (headers,) in answers(database)}
    assert location.endswith(first)


def test_a_reused_key_refuses_only_its_own_job(submitter, database):
    [first] = post(
        submitter, submission(idempotent_request=IdempotentRequest("default", "key", "digest"))
    )
    other, refused = post(
        submitter,
        submission(),
        submission(idempotent_request=IdempotentRequest("default", "key", "another")),
    )
    assert isinstance(refused, KeyReused)
    assert rows(database, Job.id) == {(first,), (other,)}


def test_what_was_posted_before_is_answered_beside_what_is_new(submitter, database, dispatcher):
    idempotent_request = IdempotentRequest("default", "key", "digest")
    [first] = post(submitter, submission(idempotent_request=idempotent_request))
    told = post(
        submitter,
        submission(name="b"),
        submission(idempotent_request=idempotent_request),
        submission(name="c"),
    )
    assert told[1] == first
    assert rows(database, Job.id) == {(one,) for one in told}
    assert dispatcher.sent == [first, told[0], told[2]]


def answers(database):
    with database.read() as session:
        return session.execute(select(IdempotencyKey.headers)).all()


def test_an_outage_fails_the_whole_batch_without_a_retry(submitter, counting_database, monkeypatch):
    """A commit whose answer was lost may have been done: it must not be tried again."""
    tries = []

    def away():
        tries.append(1)
        raise OperationalError("COMMIT", {}, ConnectionError())

    monkeypatch.setattr(counting_database, "write", away)
    assert [type(one) for one in post(submitter, submission(), submission())] == [
        OperationalError
    ] * 2
    assert len(tries) == 1
