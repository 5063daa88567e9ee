"""The scheduler with Kubernetes: each allocation ends in its true state, none is created twice."""

import pytest
from sqlalchemy import update

from ampspec.jobs import State
from server.allocations.batch_system import AllocationRequest, BatchSystemUnavailable
from server.allocations.kubernetes import Kubernetes
from server.allocations.scheduler import END_GRACE_S, Scheduler
from store import allocations
from store.clock import from_now
from store.jobs import jobs
from store.tables import Job
from tests.kubernetes_api import Failure
from tests.server.allocations.fake_batch_system import IN_ITS_TURN

RUNTIME = {"queue": "cpu"}


@pytest.fixture
def new_scheduler(database, new_kubernetes):
    """A scheduler of the queue `cpu` whose rounds the test calls, with its own connections."""

    def create():
        scheduler = Scheduler(database, new_kubernetes(), max_pending={"cpu": 10}, poll_s=60)
        scheduler.renew_leases()
        return scheduler

    return create


@pytest.fixture
def scheduler(new_scheduler):
    """The only scheduler."""
    return new_scheduler()


@pytest.fixture
def job(make_job):
    """A job of the queue `cpu`."""
    return make_job(runtime=RUNTIME)


@pytest.fixture
def allocations_of(database):
    """The allocations of a job."""

    def read(job):
        with database.read() as session:
            return list(allocations.of_job(session, job.id))

    return read


def name_of(job, number=1):
    return f"ampcore-{job.id}-1-{number}"


def change(database, job, **values):
    with database.write() as session:
        session.execute(update(Job).where(Job.id == job.id).values(**values))


def test_a_job_says_what_its_pod_waits_for(scheduler, cluster, job, waiting_of):
    assert waiting_of(job) == IN_ITS_TURN.replace("Slurm", "Kubernetes")
    scheduler.follow_and_submit()
    assert waiting_of(job) == f"Kubernetes job/{name_of(job)} is SUBMITTED."
    cluster.leave_pending(name_of(job), "0/3 nodes are available: 3 Insufficient cpu.")
    scheduler.follow_and_submit()
    assert waiting_of(job) == (
        f"Kubernetes job/{name_of(job)} is Pending "
        "(Unschedulable: 0/3 nodes are available: 3 Insufficient cpu.)."
    )
    cluster.run(name_of(job))
    scheduler.follow_and_submit()
    assert waiting_of(job) == (
        f"Kubernetes job/{name_of(job)} is Running on node-0; its worker starts."
    )


def test_a_job_with_several_machines_is_a_job_set(scheduler, cluster, make_job, allocations_of):
    job = make_job(runtime={**RUNTIME, "workers": 2, "devices": 4})
    scheduler.follow_and_submit()
    [allocation] = allocations_of(job)
    assert allocation.external_id == f"jobset/{name_of(job)}"
    cluster.run(name_of(job))
    scheduler.follow_and_submit()
    [allocation] = allocations_of(job)
    assert (allocation.state, allocation.nodes) == ("Running", "node-0,node-1")


@pytest.mark.parametrize("code", [0, 500])
def test_a_scheduler_that_ends_between_creating_and_recording_creates_nothing_twice(
    new_scheduler, cluster, job, allocations_of, code
):
    first = new_scheduler()
    cluster.failures = [Failure("POST", "jobs", code, is_done=True)]
    with pytest.raises(BatchSystemUnavailable):
        first.follow_and_submit()
    first.stop_leading()
    second = new_scheduler()
    for _ in range(2):
        second.follow_and_submit()
    assert cluster.created == [name_of(job)]
    [allocation] = allocations_of(job)
    assert (allocation.external_id, allocation.state) == (f"job/{name_of(job)}", "Pending")


@pytest.fixture
def create_meanwhile(database, new_kubernetes, monkeypatch):
    """Lets another scheduler create and record an allocation just after a list was read."""

    def prepare(job):
        with database.write() as session:
            [row] = allocations.jobs_without(session, "kubernetes", "cpu", 1)
            allocations.create(session, "kubernetes", row)
        other, statuses = new_kubernetes(), Kubernetes.statuses

        def read_and_create(kubernetes):
            received = statuses(kubernetes)
            monkeypatch.undo()
            external_id = other.submit(AllocationRequest(name_of(job), job.id, "cpu", 1, 1, None))
            with database.write() as session:
                allocations.record(session, name_of(job), external_id=external_id)
            return received

        monkeypatch.setattr(Kubernetes, "statuses", read_and_create)

    return prepare


def test_an_object_that_a_list_was_too_early_for_is_adopted(
    scheduler, cluster, job, create_meanwhile, allocations_of
):
    create_meanwhile(job)
    for _ in range(2):
        scheduler.follow_and_submit()
    assert cluster.created == [name_of(job)]
    [allocation] = allocations_of(job)
    assert (allocation.external_id, allocation.state) == (f"job/{name_of(job)}", "Pending")


def test_of_two_schedulers_one_creates(new_scheduler, cluster, job):
    first, second = new_scheduler(), new_scheduler()
    for scheduler in (second, first, second):
        scheduler.follow_and_submit()
    assert cluster.created == [name_of(job)]


def test_allocations_go_on_while_the_api_is_away(scheduler, cluster, job, allocations_of):
    scheduler.follow_and_submit()
    cluster.run(name_of(job))
    cluster.stop()
    with pytest.raises(BatchSystemUnavailable):
        scheduler.follow_and_submit()
    assert allocations_of(job)[-1].ended_at is None
    cluster.start()
    scheduler.follow_and_submit()
    assert allocations_of(job)[-1].state == "Running"


def test_a_refusal_is_the_reason_why_a_job_waits(scheduler, cluster, job, waiting_of):
    cluster.failures = [Failure("POST", "jobs", 403, "Forbidden", "exceeded quota: jobs=10")]
    scheduler.follow_and_submit()
    assert waiting_of(job) == (
        "Kubernetes does not accept it: exceeded quota: jobs=10 It is submitted again in 30 s."
    )


def test_the_end_of_a_pod_before_its_worker_claimed_the_job_is_shown(
    scheduler, cluster, job, waiting_of, allocations_of
):
    scheduler.follow_and_submit()
    cluster.run(name_of(job))
    cluster.exit(name_of(job), 137, "OOMKilled")
    scheduler.follow_and_submit()
    assert waiting_of(job).startswith(
        f"Kubernetes job/{name_of(job)} has ended before a worker ran it: Failed (OOMKilled: "
    )
    assert allocations_of(job)[-1].state == "Failed"


def test_an_object_that_somebody_deletes_is_lost_and_replaced(
    scheduler, cluster, job, allocations_of
):
    scheduler.follow_and_submit()
    del cluster.objects["jobs", name_of(job)]
    scheduler.follow_and_submit()
    assert allocations_of(job)[-1].state == allocations.LOST


def test_what_a_job_no_longer_needs_is_deleted_and_ends_as_cancelled(
    database, scheduler, cluster, job, allocations_of
):
    scheduler.follow_and_submit()
    cluster.leave_pending(name_of(job), "0/3 nodes are available.")
    with database.write() as session:
        jobs.request_cancel(session, job.id)
    scheduler.follow_and_submit()
    scheduler.follow_and_submit()
    assert allocations_of(job)[-1].state == "CANCELLING"
    cluster.remove_pods(name_of(job))
    scheduler.follow_and_submit()
    assert allocations_of(job)[-1].state == "CANCELLED"
    assert cluster.created == [name_of(job)]


def test_a_worker_that_runs_may_end_by_itself(database, scheduler, cluster, job, allocations_of):
    scheduler.follow_and_submit()
    cluster.run(name_of(job))
    change(database, job, state=State.SUCCEEDED, changed_at=from_now(0))
    scheduler.follow_and_submit()
    assert not any(method == "DELETE" for method, _ in cluster.requests)
    cluster.succeed(name_of(job))
    scheduler.follow_and_submit()
    assert allocations_of(job)[-1].state == "Succeeded"


def test_a_worker_that_does_not_end_is_told_to(database, scheduler, cluster, job):
    scheduler.follow_and_submit()
    cluster.run(name_of(job))
    change(database, job, state=State.SUCCEEDED, changed_at=from_now(-END_GRACE_S))
    scheduler.follow_and_submit()
    assert any(method == "DELETE" for method, _ in cluster.requests)
