"""Concurrent submissions share a transaction, and each gets its own response or error."""

import asyncio
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from ampspec.jobs import SpecValidationError
from server.data_root import DataRoot
from server.errors import NotFound
from server.submissions import submission as submission_module
from server.submissions.submission import CHECKS_PER_TOKEN, JobDraft, JobSubmitter, Submission
from store.access import projects
from store.access.audit import Actor
from store.access.idempotency import IdempotentRequest, KeyReused
from store.access.projects import QuotaReached
from store.tables import AuditEntry, EventRow, IdempotencyKey, Job
from tests.waiting import DEADLINE_S

SPEC = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}


class CountingDatabase:
    """A database that counts its write transactions."""

    def __init__(self, database):
        self._database = database
        self.read = database.read
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
    return JobSubmitter(counting_database, DataRoot(tmp_path), dispatcher)


@pytest.fixture
def vision(database):
    """A project whose queue has room for one job."""
    with database.write() as session:
        projects.update(session, "vision", {"max_queued": 1})


def submission(document=SPEC, project="default", name="ada", idempotent_request=None):
    actor = Actor(project, "0123", name, "127.0.0.1", f"request-of-{name}")
    return Submission(lambda: JobDraft(document, project), "job.submit", actor, idempotent_request)


def submit(submitter, *submissions):
    """For each submission the id of its job, or its error.

    All are checked before one is written.
    """

    async def submit_all():
        check, write, left = submitter._checks.run, submitter._batcher.submit, len(submissions)
        are_checked = asyncio.Event()

        async def count(*arguments):
            nonlocal left
            try:
                return await check(*arguments)
            finally:
                left -= 1
                if not left:
                    are_checked.set()

        async def write_together(checked):
            await are_checked.wait()
            return await write(checked)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(submitter._checks, "run", count)
            patch.setattr(submitter._batcher, "submit", write_together)
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
    assert sorted(dispatcher.sent) == sorted(ids)
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
    assert sorted(dispatcher.sent) == sorted([results[0], results[3]])
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
    assert [type(one) for one in (results[0], results[3])] == [str, str]
    assert {type(one) for one in results[1:3]} == {str, QuotaReached}
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
    assert dispatcher.sent[0] == first
    assert sorted(dispatcher.sent[1:]) == sorted([results[0], results[2]])


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


def test_slow_checks_of_one_token_do_not_delay_the_submissions_of_others(submitter, database):
    begun, may_go_on = [], threading.Event()

    def slow_draft():
        begun.append(1)
        assert may_go_on.wait(DEADLINE_S)
        return JobDraft(SPEC, "default")

    async def submit_slow_ones_and_another():
        slow = Submission(slow_draft, "job.submit", submission().actor)
        others = [asyncio.create_task(submitter.submit(slow)) for _ in range(20)]
        while len(begun) < CHECKS_PER_TOKEN:
            await asyncio.sleep(0.001)
        stranger = replace(submission().actor, token_id="another")
        created = await submitter.submit(replace(submission(), actor=stranger))
        assert len(begun) == CHECKS_PER_TOKEN
        assert not any(task.done() for task in others)
        may_go_on.set()
        await asyncio.gather(*others)
        return created

    assert asyncio.run(submit_slow_ones_and_another()).status == 201
    assert len(rows(database, Job.id)) == 21


def test_an_unexpected_error_of_one_job_refuses_only_that_job(submitter, database, monkeypatch):
    insert = submission_module.record_files

    def fail_for_one(session, specs):
        if any(spec.name == "poison" for spec, _, _ in specs):
            raise ZeroDivisionError
        insert(session, specs)

    monkeypatch.setattr(submission_module, "record_files", fail_for_one)
    results = submit(submitter, submission(), submission({**SPEC, "name": "poison"}), submission())
    assert [type(one) for one in results] == [str, ZeroDivisionError, str]
    assert rows(database, Job.id) == {(results[0],), (results[2],)}


def test_an_error_after_the_commit_is_no_error_of_the_submission(
    submitter, database, dispatcher, monkeypatch
):
    def fail(job_id, queue):
        raise ZeroDivisionError

    monkeypatch.setattr(dispatcher, "send", fail)
    ids = submit(submitter, submission(), submission())
    assert rows(database, Job.id) == {(one,) for one in ids}
