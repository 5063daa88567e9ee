"""Races between two transactions, with real threads and connections."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from ampspec.jobs import TRANSITIONS, State
from store.access import projects
from store.clock import from_now
from store.jobs import attempts, jobs, lease_expiry, queue
from store.tables import Attempt
from store.telemetry import events
from tests.databases import ON_POSTGRESQL

ROUNDS = 200


@pytest.fixture
def run_concurrently(database):
    """Run functions of a session concurrently, each in its own transaction; returns the results."""
    with ThreadPoolExecutor(8) as threads:

        def run(*works):
            start = threading.Barrier(len(works))

            def function(work):
                start.wait()
                with database.write() as session:
                    return work(session)

            return [
                future.result() for future in [threads.submit(function, work) for work in works]
            ]

        yield run


def states_of(database, job_id):
    with database.read() as session:
        rows = events.read(session, job_id, after_seq=0, limit=99)
        return [State(row.data["state"]) for row in rows if row.type == "state"]


def test_one_of_many_concurrent_claims_gets_the_job(database, make_job, run_concurrently):
    job_id = make_job().id
    names = [f"worker {number}" for number in range(8)]
    claims = run_concurrently(*(lambda s, n=name: attempts.claim(s, job_id, n) for name in names))
    [won] = [job for job in claims if job is not None]
    with database.read() as session:
        job = jobs.get(session, job_id)
        assert (job.state, job.attempt, job.worker_id) == (State.STARTING, 1, won.worker_id)
        assert session.get(Attempt, (job_id, 1)).worker_id == won.worker_id


def test_concurrent_workers_claim_one_job_each(make_job, run_concurrently):
    job_ids = {make_job().id for _ in range(8)}
    works = [
        lambda s, n=number: attempts.claim_next(s, f"w{n}", ["default"]) for number in range(8)
    ]
    claims = run_concurrently(*works)
    assert {job.id for job in claims} == job_ids
    assert run_concurrently(works[0]) == [None]


def test_a_job_that_is_being_edited_is_claimed(database, make_job, run_concurrently):
    job_id = make_job().id
    for number in range(20):
        edit, claimed = run_concurrently(
            lambda s, n=number: jobs.edit(s, job_id, {"priority": n % 10}),
            lambda s: attempts.claim_next(s, "w", ["default"]),
        )
        assert edit is not None
        assert claimed is not None
        run_concurrently(lambda s, n=claimed.attempt: attempts.requeue(s, job_id, n))


@pytest.mark.slow
@ON_POSTGRESQL
def test_a_cancel_concurrent_with_a_success_leads_to_one_outcome(
    database, make_job, run_concurrently
):
    ends = Counter()
    for _ in range(ROUNDS):
        job_id = make_job(State.RUNNING).id
        cancelled, ended = run_concurrently(
            lambda s, i=job_id: jobs.request_cancel(s, i),
            lambda s, i=job_id: attempts.mark_succeeded(s, i, 1, {"steps": 1}),
        )
        states = states_of(database, job_id)
        with database.read() as session:
            job, attempt = jobs.get(session, job_id), session.get(Attempt, (job_id, 1))
        won = State.CANCELLED if cancelled is not None else State.SUCCEEDED
        expected = [State.STOPPING, State.CANCELLED] if cancelled is not None else [State.SUCCEEDED]
        assert (job.state, ended.state, attempt.outcome) == (won, won, won)
        assert states == [State.QUEUED, State.STARTING, State.RUNNING, *expected]
        assert (job.summary is None) == (won == State.CANCELLED)
        assert job.lease_expires_at is None
        ends[won] += 1
    assert ends.total() == ROUNDS


def test_a_cancel_concurrent_with_a_claim_leaves_a_valid_event_log(
    database, make_job, run_concurrently
):
    for _ in range(50):
        job_id = make_job().id
        cancelled, claimed = run_concurrently(
            lambda s, i=job_id: jobs.request_cancel(s, i),
            lambda s, i=job_id: attempts.claim(s, i, "w"),
        )
        assert cancelled.state == (State.CANCELLED if claimed is None else State.STOPPING)
        states = states_of(database, job_id)
        for state, next_state in pairwise(states):
            assert next_state in TRANSITIONS[state]


def test_two_reconcilers_expire_each_lease_once(database, make_job, put, run_concurrently):
    job_ids = [make_job(State.RUNNING).id for _ in range(20)]
    for job_id in job_ids:
        put(job_id, lease_expires_at=from_now(-1))
    both = [
        [job.id for job in ended]
        for ended in run_concurrently(lease_expiry.expire, lease_expiry.expire)
    ]
    assert sorted(both[0] + both[1]) == sorted(job_ids)
    with database.read() as session:
        assert {jobs.get(session, job_id).failures for job_id in job_ids} == {1}


def test_two_reconcilers_that_mark_jobs_dispatched_do_not_deadlock(make_job, run_concurrently):
    job_ids = [make_job().id for _ in range(20)]
    for _ in range(10):
        run_concurrently(
            lambda s: queue.mark_dispatched(s, job_ids),
            lambda s: queue.mark_dispatched(s, job_ids[::-1]),
            lease_expiry.expire,
        )


def test_a_running_quota_of_one_allows_one_of_many_concurrent_claims(
    in_transaction, make_job, run_concurrently
):
    in_transaction(projects.update, "small", {"max_running": 1})
    in_transaction(projects.update, "other", {"max_running": 1})
    for name in ("small", "small", "small", "other", "other"):
        make_job(project=name)
    works = [
        lambda s, n=number: attempts.claim_next(s, f"w{n}", ["default"]) for number in range(4)
    ]
    claims = [job.project for job in run_concurrently(*works) if job is not None]
    assert sorted(claims) == ["other", "small"]


def test_concurrent_submissions_and_claims_in_one_project_do_not_deadlock(
    in_transaction, make_job, make_spec, run_concurrently
):
    in_transaction(projects.update, "small", {"max_running": 100})
    for _ in range(20):
        make_job(project="small")
        run_concurrently(
            lambda s: jobs.create(s, make_spec(), jobs.Origin("small")),
            lambda s: attempts.claim_next(s, "w1", ["default"]),
            lambda s: attempts.claim_next(s, "w2", ["default"]),
        )
