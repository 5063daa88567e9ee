"""Quotas, also for concurrent requests on two connections."""

import threading

import pytest

from ampspec.jobs import State
from store.access import projects
from store.access.projects import ProjectLoad, QuotaReached
from store.jobs import attempts, jobs
from store.jobs.jobs import Origin


@pytest.fixture
def project(database):
    """The default project."""
    with database.write() as session:
        projects.ensure(session, "default")
    return "default"


def set_quotas(database, **quotas):
    with database.write() as session:
        projects.update(session, "default", quotas)


def submit(database, spec, project="default"):
    with database.write() as session:
        projects.check_queue_quota(session, project)
        return jobs.create(session, spec, Origin(project)).id


def run_concurrently(count, work):
    """What `count` concurrent calls of `work` returned or raised."""
    start, outcomes = threading.Barrier(count), []

    def run():
        start.wait()
        try:
            outcomes.append(work())
        except Exception as error:
            outcomes.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def test_ensuring_an_existing_project_changes_nothing(database, project):
    set_quotas(database, max_queued=3)
    with database.write() as session:
        projects.ensure(session, project)
        assert projects.get(session, project).max_queued == 3


def test_a_project_can_be_ensured_concurrently(database):
    def ensure():
        with database.write() as session:
            projects.ensure(session, "new")

    assert run_concurrently(4, ensure) == [None] * 4


def test_updating_one_quota_keeps_the_other(database, project):
    set_quotas(database, max_queued=3, max_running=2)
    set_quotas(database, max_queued=None)
    with database.read() as session:
        row = projects.get(session, project)
        assert (row.max_queued, row.max_running) == (None, 2)


def test_the_load_counts_queued_and_running_jobs(database, project, make_job):
    for state in (State.QUEUED, State.QUEUED, State.RUNNING, State.STOPPING, State.SUCCEEDED):
        make_job(state)
    with database.read() as session:
        assert projects.load_by_project(session) == {"default": ProjectLoad(queued=2, running=2)}


def test_a_full_queue_refuses_the_next_job_until_a_worker_takes_one(database, project, make_spec):
    set_quotas(database, max_queued=2)
    for _ in range(2):
        submit(database, make_spec())
    with pytest.raises(QuotaReached, match="quota of 2"):
        submit(database, make_spec())
    with database.write() as session:
        attempts.claim_next(session, "worker", ["default"])
    submit(database, make_spec())


def test_the_queue_of_another_project_is_not_counted(database, project, make_spec):
    set_quotas(database, max_queued=1)
    with database.write() as session:
        projects.ensure(session, "other")
    submit(database, make_spec())
    submit(database, make_spec(), "other")
    with database.read() as session:
        assert projects.load_by_project(session) == {
            "default": ProjectLoad(queued=1, running=0),
            "other": ProjectLoad(queued=1, running=0),
        }
    with pytest.raises(QuotaReached, match="quota of 1"):
        submit(database, make_spec())


def test_the_queue_quota_holds_for_concurrent_submissions(database, project, make_spec):
    # Fails without `with_for_update` in store/access/projects.py: PostgreSQL then queues more jobs.
    set_quotas(database, max_queued=3)
    outcomes = run_concurrently(8, lambda: submit(database, make_spec()))
    assert sum(isinstance(outcome, QuotaReached) for outcome in outcomes) == 5
    with database.read() as session:
        assert projects.load_by_project(session)["default"].queued == 3


def claim(database, worker_id="worker"):
    with database.write() as session:
        job = attempts.claim_next(session, worker_id, ["default"])
        return job.id if job is not None else None


def test_claiming_skips_a_project_at_its_running_quota(database, project, make_spec):
    set_quotas(database, max_running=1)
    with database.write() as session:
        projects.ensure(session, "other")
    first, second = submit(database, make_spec()), submit(database, make_spec())
    other_job = submit(database, make_spec(), "other")
    assert claim(database) == first
    assert claim(database) == other_job
    assert claim(database) is None
    with database.write() as session:
        attempts.mark_running(session, first, 1, total_steps=1, first_step=0)
        attempts.mark_succeeded(session, first, 1, {})
    assert claim(database) == second


def test_the_running_quota_holds_for_concurrent_claims(database, project, make_spec):
    # Fails without `with_for_update` in store/access/projects.py: PostgreSQL then claims more jobs.
    set_quotas(database, max_running=2)
    for _ in range(6):
        submit(database, make_spec())
    outcomes = run_concurrently(6, lambda: claim(database))
    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert sum(outcome is not None for outcome in outcomes) == 2
    with database.read() as session:
        assert projects.load_by_project(session)["default"].running == 2


def test_concurrent_claims_in_several_projects_do_not_deadlock(database, project, make_spec):
    for name in ("default", "b", "c"):
        with database.write() as session:
            projects.update(session, name, {"max_running": 2})
        for _ in range(4):
            submit(database, make_spec(), name)
    outcomes = run_concurrently(8, lambda: claim(database))
    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    with database.read() as session:
        assert {load.running for load in projects.load_by_project(session).values()} == {2}
