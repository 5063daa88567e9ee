"""A worker for one job claims this job and no other, or is told why it cannot."""

import threading
from datetime import UTC, datetime

import pytest

from ampspec.jobs import State
from store.access import projects
from store.clock import from_now
from store.jobs import attempts, claim_by_id, jobs
from store.jobs.claim_by_id import Refusal
from store.tables import Attempt, Job
from tests.waiting import join


@pytest.fixture
def claim(in_transaction):
    def claim(job_id, **options):
        return in_transaction(claim_by_id.claim, job_id, "w", **options)

    return claim


def test_the_job_is_claimed_although_others_are_before_it(claim, make_job, database):
    first, job = make_job(runtime={"priority": 9}), make_job()
    claimed = claim(job.id)
    assert isinstance(claimed, Job)
    assert (claimed.id, claimed.state, claimed.attempt) == (job.id, State.STARTING, 1)
    with database.read() as session:
        assert session.get(Attempt, (job.id, 1)).worker_id == "w"
        assert jobs.get(session, first.id).state == State.QUEUED


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (State.PAUSED, "is paused; resume it first."),
        (State.CANCELLED, "has ended: it is cancelled."),
        (State.SUCCEEDED, "has ended: it is succeeded."),
        (State.FAILED, "has ended: it is failed."),
    ],
)
def test_a_job_that_only_a_person_can_queue_is_refused_for_good(claim, make_job, state, message):
    job = make_job(state)
    assert claim(job.id) == Refusal(f"The job '{job.id}' {message}", is_final=True)


def test_an_unknown_job_is_refused_for_good(claim):
    message = "There is no job 'ab12'; it may have been deleted."
    assert claim("ab12") == Refusal(message, is_final=True)


def test_a_job_of_another_worker_may_be_waited_for(claim, make_job):
    job = make_job(State.RUNNING)
    message = f"The job '{job.id}' is running on another worker."
    assert claim(job.id) == Refusal(message, is_final=False, runs_elsewhere=True)


def test_a_job_is_not_claimed_before_it_is_due(claim, make_job, put):
    job = make_job()
    put(job.id, not_before=datetime(2100, 1, 2, 3, 4, 5, tzinfo=UTC))
    message = f"The next attempt at the job '{job.id}' is due at 2100-01-02 03:04:05 UTC."
    assert claim(job.id) == Refusal(message, is_final=False)
    put(job.id, not_before=from_now(-1))
    assert claim(job.id).id == job.id


def test_the_quota_of_the_project_is_respected(claim, in_transaction, make_job):
    in_transaction(projects.update, "small", {"max_running": 1})
    first, second = make_job(project="small"), make_job(project="small")
    assert claim(first.id).id == first.id
    refusal = claim(second.id)
    assert (refusal.is_final, "quota of 1 running job" in refusal.message) == (False, True)
    in_transaction(attempts.requeue, first.id, 1)
    assert claim(second.id).id == second.id


def test_concurrent_claims_do_not_exceed_the_quota(in_transaction, database, make_job):
    in_transaction(projects.update, "small", {"max_running": 2})
    waiting_jobs = [make_job(project="small") for _ in range(6)]
    results = []

    def claim_each(number):
        with database.write() as session:
            if number % 2:
                results.append(claim_by_id.claim(session, waiting_jobs[number].id, "w"))
            else:
                results.append(attempts.claim_next(session, "w", ["default"]))

    threads = [threading.Thread(target=claim_each, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    join(*threads)
    assert sum(isinstance(result, Job) for result in results) == 2


def test_two_workers_do_not_claim_the_same_job(database, make_job):
    job, results = make_job(), []

    def claim_once(name):
        with database.write() as session:
            results.append(claim_by_id.claim(session, job.id, name))

    threads = [threading.Thread(target=claim_once, args=[name]) for name in "ab"]
    for thread in threads:
        thread.start()
    join(*threads)
    assert sorted(isinstance(result, Job) for result in results) == [False, True]


def test_custom_code_needs_a_sandbox(claim, make_job):
    model = {"kind": "bundle", "bundle": f"sha256:{'0' * 64}"}
    job = make_job(model=model)
    refusal = claim(job.id, with_bundles=False)
    assert (refusal.is_final, "no sandbox" in refusal.message) == (True, True)
    assert claim(job.id, with_bundles=True).id == job.id


def test_a_tracked_run_is_refused(claim, make_job, put):
    job = make_job(State.RUNNING)
    put(job.id, source="tracked")
    message = f"The job '{job.id}' is a tracked run, which no worker runs."
    assert claim(job.id) == Refusal(message, is_final=True)
