"""What the scheduler does with allocations that were lost, forgotten, or are not needed."""

import pytest
from sqlalchemy import update

from ampspec.jobs import State
from server.allocations.batch_system import AllocationStatus
from server.allocations.scheduler import END_GRACE_S
from store import allocations, workers
from store.access import projects
from store.clock import from_now
from store.jobs import attempts, jobs
from store.tables import Allocation, Job, Leader, Project
from tests.server.allocations.fake_batch_system import (
    IN_ITS_TURN,
    QUEUE,
    FakeBatchSystem,
    new_scheduler,
    put,
)

KNOWN = {"hostname": "h", "pid": 1, "version": "1"}


def test_the_full_quota_of_one_project_holds_up_no_other_one(database, batch_system, make_job):
    with database.write() as session:
        projects.ensure(session, "full")
        session.execute(update(Project).where(Project.name == "full").values(max_running=1))
    for _ in range(12):
        make_job(runtime=QUEUE, project="full")
    last = make_job(runtime=QUEUE)
    scheduler = new_scheduler(database, batch_system, max_pending=2)
    scheduler.follow_and_submit()
    assert last.id in {request.job_id for request in batch_system.requests}
    assert len(batch_system.requests) == 2


def test_a_queue_may_change_its_batch_system(database, batch_system, scheduler, queued_job):
    scheduler.follow_and_submit()
    scheduler.stop_leading()
    kubernetes = FakeBatchSystem()
    kubernetes.engine = "kubernetes"
    new_scheduler(database, kubernetes).follow_and_submit()
    assert [request.name for request in kubernetes.requests] == [f"ampcore-{queued_job.id}-1-2"]


@pytest.mark.parametrize("has_begun", [False, True])
def test_what_waits_although_its_end_is_recorded_is_cancelled(
    database, batch_system, scheduler, queued_job, *, has_begun
):
    """Its submission had seemed to fail. One that runs ends by itself: its job is not queued."""
    scheduler.follow_and_submit()
    name = batch_system.requests[0].name
    put(database, Allocation, ended_at=from_now(0), retry_at=from_now(60))
    batch_system.change(name, has_begun=has_begun)
    batch_system.known["ampcore-of-another-server-1-1"] = AllocationStatus("7", "PENDING")
    scheduler.follow_and_submit()
    assert batch_system.cancelled == ([] if has_begun else ["101"])


def test_a_scheduler_without_a_database_leads_nothing(
    batch_system, scheduler, queued_job, monkeypatch
):
    def fail(*_):
        raise OSError("the database is gone")

    monkeypatch.setattr("store.leaders.lead", fail)
    with pytest.raises(OSError, match="gone"):
        scheduler.renew_leases()
    scheduler.follow_and_submit()
    assert batch_system.requests == []


def test_a_queue_that_no_scheduler_serves_any_more_is_named(
    database, scheduler, queued_job, waiting_of
):
    scheduler.follow_and_submit()
    put(database, Leader, lease_expires_at=from_now(-1))
    assert waiting_of(queued_job).endswith(
        "No scheduler of Slurm serves the queue 'batch' at the moment, so this may be out of date."
    )


def test_jobs_with_a_package_are_jobs_of_their_queue(
    database, batch_system, scheduler, queued_job, waiting_of
):
    put(database, Job, queue="batch/birds")
    assert waiting_of(queued_job) == IN_ITS_TURN
    for _ in range(2):
        scheduler.follow_and_submit()
    [request] = batch_system.requests
    assert (request.queue, batch_system.cancelled) == ("batch", [])
    assert waiting_of(queued_job).startswith("Slurm job 101 is PENDING")
    batch_system.change(request.name, state="FAILED", has_ended=True)
    scheduler.follow_and_submit()
    assert "It is submitted again in 30 s." in waiting_of(queued_job)


def test_an_allocation_whose_job_a_plain_worker_has_taken_is_cancelled(
    database, batch_system, scheduler, queued_job
):
    scheduler.follow_and_submit()
    with database.write() as session:
        workers.register(session, "plain", slots=1, queues=["batch"], **KNOWN)
        attempts.claim(session, queued_job.id, "plain")
    scheduler.follow_and_submit()
    assert batch_system.cancelled == ["101"]


def test_an_allocation_that_slurm_has_forgotten_after_its_job_is_not_said_to_be_cancelled(
    database, batch_system, scheduler, queued_job, allocation_of
):
    scheduler.follow_and_submit()
    batch_system.change(batch_system.requests[0].name, state="RUNNING", has_begun=True)
    scheduler.follow_and_submit()
    put(database, Job, state=State.SUCCEEDED, changed_at=from_now(-END_GRACE_S))
    batch_system.known.clear()
    scheduler.follow_and_submit()
    allocation = allocation_of(queued_job)
    assert (allocation.state, allocation.reason) == (
        "ENDED",
        "The batch system no longer knows it; it was RUNNING before.",
    )


def test_pausing_a_job_that_waits_is_no_failure(
    database, batch_system, scheduler, queued_job, messages_of
):
    scheduler.follow_and_submit()
    with database.write() as session:
        jobs.request_pause(session, queued_job.id)
    scheduler.follow_and_submit()
    assert ends_of(database, queued_job) == [("CANCELLING", None)]
    with database.write() as session:
        jobs.resume(session, queued_job.id)
    batch_system.change(batch_system.requests[0].name, state="CANCELLED", has_ended=True)
    scheduler.follow_and_submit()
    assert ends_of(database, queued_job)[0] == ("CANCELLED", allocations.NOT_NEEDED)
    assert batch_system.requests[-1].name == f"ampcore-{queued_job.id}-1-2"
    assert messages_of(queued_job) == []


def ends_of(database, job):
    """The state and the reason of each allocation of a job."""
    with database.read() as session:
        return [(row.state, row.reason) for row in allocations.of_job(session, job.id)]


def test_why_a_worker_did_not_run_its_job_is_shown(
    database, batch_system, scheduler, queued_job, waiting_of
):
    scheduler.follow_and_submit()
    with database.write() as session:
        allocations.note_worker(session, queued_job.id, "It needs the package 'birds'.")
    batch_system.change(batch_system.requests[0].name, state="FAILED", has_ended=True)
    scheduler.follow_and_submit()
    message = (
        "Slurm job 101 has ended. Its worker did not run the job: It needs the package 'birds'."
    )
    assert waiting_of(queued_job) == f"{message} It is submitted again in 30 s."
