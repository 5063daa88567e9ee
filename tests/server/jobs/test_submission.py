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
    """A database that counts its write transactions."""

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


def submit(submitter, *submissions):
    """For each submission the id of its job, or its error."""

    async def submit_all():
        taken = (submitter.submit(one) for one in submissions)
        return await asyncio.gather(*taken, return_exceptions=True)

    return [
        one if isinstance(one, Exception) else one.headers["Location"].rpartition("/")[2]
        for one in asyncio.run(submit_all())
    ]


def rows(database, *columns):
    with database.read() as session:
        return set(session.execute(select(*columns)))


def test_submissions_at_the_same_moment_share_one_transaction(
    submitter, counting_database, database, dispatcher
):
    ids = submit(submitter, *(submission(name=f"person {number}") for number in range(20)))
    assert counting_database.writes == 1
    assert dispatcher.sent == ids
    assert len(set(ids)) == 20
    people = {(job, f"person {n}", f"request-of-person {n}") for n, job in enumerate(ids)}
    assert rows(database, Job.id, Job.created_by, Job.request_id) == people
    assert rows(database, AuditEntry.target, AuditEntry.token_name, AuditEntry.request_id) == people
    assert rows(database, EventRow.job_id, EventRow.seq) == {(job, 1) for job in ids}


def test_an_invalid_submission_fails_alone(submitter, counting_database, dispatcher):
    def fail_to_draft():
        raise NotFound("There is no job.")

    of_missing_job = Submission(fail_to_draft, "job.clone", submission().actor)
    results = submit(
        submitter, submission(), submission({"model": 1}), of_missing_job, submission()
    )
    assert [type(one) for one in results] == [str, SpecValidationError, NotFound, str]
    assert dispatcher.sent == [results[0], results[3]]
    assert counting_database.writes == 1


def test_a_quota_refuses_only_the_submissions_above_it(submitter, database, vision, dispatcher):
    """Fails without the second try, one by one: the whole batch would be refused."""
    results = submit(
        submitter,
        submission(),
        submission(project="vision"),
        submission(project="vision"),
        submission(),
    )
    assert [type(one) for one in results] == [str, str, QuotaExceeded, str]
    assert rows(database, Job.id) == {(one,) for one in results if isinstance(one, str)}
    assert len(dispatcher.sent) == 3


def test_concurrent_submissions_with_one_key_create_one_job(submitter, database):
    """Fails if both are written in one transaction as if they had different keys."""
    idempotent_request = IdempotentRequest("default", "key", "digest")
    first, again, other = submit(
        submitter,
        submission(idempotent_request=idempotent_request),
        submission(idempotent_request=idempotent_request),
        submission(),
    )
    assert first == again
    assert rows(database, Job.id) == {(first,), (other,)}
    [location] = {headers["Location"] for (headers,) in stored_headers(database)}
    assert location.endswith(first)


def test_a_reused_key_fails_only_its_own_submission(submitter, database):
    [first] = submit(
        submitter, submission(idempotent_request=IdempotentRequest("default", "key", "digest"))
    )
    other, refused = submit(
        submitter,
        submission(),
        submission(idempotent_request=IdempotentRequest("default", "key", "another")),
    )
    assert isinstance(refused, KeyReused)
    assert rows(database, Job.id) == {(first,), (other,)}


def test_a_repeated_submission_is_replayed_in_a_batch_with_new_ones(
    submitter, database, dispatcher
):
    idempotent_request = IdempotentRequest("default", "key", "digest")
    [first] = submit(submitter, submission(idempotent_request=idempotent_request))
    results = submit(
        submitter,
        submission(name="b"),
        submission(idempotent_request=idempotent_request),
        submission(name="c"),
    )
    assert results[1] == first
    assert rows(database, Job.id) == {(one,) for one in results}
    assert dispatcher.sent == [first, results[0], results[2]]


def stored_headers(database):
    with database.read() as session:
        return session.execute(select(IdempotencyKey.headers)).all()


def test_an_outage_fails_the_whole_batch_without_a_retry(submitter, counting_database, monkeypatch):
    """A commit whose response was lost may have succeeded: it must not be retried."""
    tries = []

    def fail():
        tries.append(1)
        raise OperationalError("COMMIT", {}, ConnectionError())

    monkeypatch.setattr(counting_database, "write", fail)
    assert [type(one) for one in submit(submitter, submission(), submission())] == [
        OperationalError
    ] * 2
    assert len(tries) == 1
