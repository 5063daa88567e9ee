"""Races between two transactions, with real threads and connections."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from ampcore.spec import TRANSITIONS, State
from store import attempts, events, jobs, lease_expiry, projects, queue
from store.clock import after
from store.tables import Attempt

ROUNDS = 200


@pytest.fixture
def at_once(database):
    """Run functions of a session at one time, each in its own transaction; what they returned."""
    with ThreadPoolExecutor(8) as threads:

        def run(*works):
            start = threading.Barrier(len(works))

            def one(work):
                start.wait()
                with database.write() as session:
                    return work(session)

            return [future.result() for future in [threads.submit(one, work) for work in works]]

        yield run


def states_of(database, job_id):
    with database.read() as session:
        rows = events.read(session, job_id, after=0, limit=99)
        return [State(row.data["state"]) for row in rows if row.type == "state"]


def test_of_many_claims_at_once_exactly_one_gets_the_job(database, make_job, at_once):
    job_id = make_job().id
    names = [f"worker {number}" for number in range(8)]
    claims = at_once(*(lambda s, n=name: attempts.claim(s, job_id, n) for name in names))
    [won] = [job for job in claims if job is not None]
    with database.read() as session:
        job = jobs.get(session, job_id)
        assert (job.state, job.attempt, job.worker_id) == (State.STARTING, 1, won.worker_id)
        assert session.get(Attempt, (job_id, 1)).worker_id == won.worker_id


def test_workers_that_ask_at_once_get_a_job_each_and_none_is_left(make_job, at_once):
    made = {make_job().id for _ in range(8)}
    works = [
        lambda s, n=number: attempts.claim_next(s, f"w{n}", ["default"]) for number in range(8)
    ]
    claims = at_once(*works)
    assert {job.id for job in claims} == made
    assert at_once(works[0]) == [None]


def test_a_job_that_somebody_edits_is_claimed_after_that(database, make_job, at_once):
    job_id = make_job().id
    for number in range(20):
        edit, claimed = at_once(
            lambda s, n=number: jobs.edit(s, job_id, {"priority": n % 10}),
            lambda s: attempts.claim_next(s, "w", ["default"]),
        )
        assert edit is not None
        assert claimed is not None
        at_once(lambda s, n=claimed.attempt: attempts.hand_back(s, job_id, n))


def test_a_cancel_races_a_success_to_exactly_one_end(database, make_job, at_once):
    ends = Counter()
    for _ in range(ROUNDS):
        job_id = make_job(State.RUNNING).id
        asked, ended = at_once(
            lambda s, i=job_id: jobs.request_cancel(s, i),
            lambda s, i=job_id: attempts.mark_succeeded(s, i, 1, {"steps": 1}),
        )
        states = states_of(database, job_id)
        with database.read() as session:
            job, attempt = jobs.get(session, job_id), session.get(Attempt, (job_id, 1))
        won = State.CANCELLED if asked is not None else State.SUCCEEDED
        told = [State.STOPPING, State.CANCELLED] if asked is not None else [State.SUCCEEDED]
        assert (job.state, ended.state, attempt.outcome) == (won, won, won)
        assert states == [State.QUEUED, State.STARTING, State.RUNNING, *told]
        assert (job.summary is None) == (won == State.CANCELLED)
        assert job.lease_expires_at is None
        ends[won] += 1
    assert ends.total() == ROUNDS


def test_a_cancel_that_races_a_claim_leaves_a_valid_event_log(database, make_job, at_once):
    for _ in range(50):
        job_id = make_job().id
        asked, claimed = at_once(
            lambda s, i=job_id: jobs.request_cancel(s, i),
            lambda s, i=job_id: attempts.claim(s, i, "w"),
        )
        assert asked.state == (State.CANCELLED if claimed is None else State.STOPPING)
        states = states_of(database, job_id)
        for before, then in pairwise(states):
            assert then in TRANSITIONS[before]


def test_two_reconcilers_lose_each_job_once(database, make_job, put, at_once):
    made = [make_job(State.RUNNING).id for _ in range(20)]
    for job_id in made:
        put(job_id, lease_expires_at=after(-1))
    both = [
        [job.id for job in ended] for ended in at_once(lease_expiry.expire, lease_expiry.expire)
    ]
    assert sorted(both[0] + both[1]) == sorted(made)
    with database.read() as session:
        assert {jobs.get(session, job_id).failures for job_id in made} == {1}


def test_two_reconcilers_that_note_messages_block_nobody(make_job, at_once):
    made = [make_job().id for _ in range(20)]
    for _ in range(10):
        at_once(
            lambda s: queue.mark_dispatched(s, made),
            lambda s: queue.mark_dispatched(s, made[::-1]),
            lease_expiry.expire,
        )


def test_a_quota_of_one_lets_one_of_many_claims_through(in_transaction, make_job, at_once):
    in_transaction(projects.update, "small", {"max_running": 1})
    in_transaction(projects.update, "other", {"max_running": 1})
    for name in ("small", "small", "small", "other", "other"):
        make_job(project=name)
    works = [
        lambda s, n=number: attempts.claim_next(s, f"w{n}", ["default"]) for number in range(4)
    ]
    claims = [job.project for job in at_once(*works) if job is not None]
    assert sorted(claims) == ["other", "small"]


def test_posting_and_claiming_in_one_project_block_nobody(
    in_transaction, make_job, make_spec, at_once
):
    in_transaction(projects.update, "small", {"max_running": 100})
    for _ in range(20):
        make_job(project="small")
        at_once(
            lambda s: jobs.create(s, make_spec(), jobs.Origin("small")),
            lambda s: attempts.claim_next(s, "w1", ["default"]),
            lambda s: attempts.claim_next(s, "w2", ["default"]),
        )
