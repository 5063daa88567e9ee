"""The scheduler, with a batch system that the tests control: no allocation is submitted twice."""

import pytest
from sqlalchemy import select, update

from ampspec.jobs import State
from server.allocations.batch_system import (
    BatchSystemUnavailable,
    SubmissionRefused,
)
from server.allocations.scheduler import END_GRACE_S
from store import allocations
from store.access import projects
from store.clock import from_now
from store.jobs import attempts, jobs
from store.tables import Allocation, Job, Project
from store.telemetry import events
from tests.server.allocations.fake_batch_system import (
    IN_ITS_TURN,
    QUEUE,
    new_scheduler,
    put,
)


def test_each_queued_job_is_submitted_once(scheduler, batch_system, make_job, allocation_of):
    job, other_queue = make_job(runtime=QUEUE), make_job()
    for _ in range(3):
        scheduler.follow_and_submit()
    [request] = batch_system.requests
    assert (request.job_id, request.queue, request.nodes, request.devices) == (
        job.id,
        "batch",
        1,
        1,
    )
    assert request.name == f"ampcore-{job.id}-1-1"
    assert allocation_of(job).external_id == "101"
    assert allocation_of(other_queue) is None


def test_a_job_asks_for_its_machines_devices_and_time(scheduler, batch_system, make_job):
    make_job(runtime={**QUEUE, "workers": 2, "devices": 4, "timeout_s": 600})
    scheduler.follow_and_submit()
    [request] = batch_system.requests
    assert (request.nodes, request.devices, request.time_limit_s) == (2, 4, 600)


def test_what_the_batch_system_says_is_the_reason_why_a_job_waits(
    scheduler, batch_system, make_job, waiting_of
):
    job = make_job(runtime=QUEUE)
    assert waiting_of(job) == IN_ITS_TURN
    scheduler.follow_and_submit()
    name = batch_system.requests[0].name
    batch_system.change(name, reason="Resources", expected_start_at=None)
    scheduler.follow_and_submit()
    assert waiting_of(job) == "Slurm job 101 is PENDING (Resources)."
    batch_system.change(name, state="RUNNING", reason=None, nodes="n[1-2]")
    scheduler.follow_and_submit()
    assert waiting_of(job) == "Slurm job 101 is RUNNING on n[1-2]; its worker starts."


def test_a_submission_whose_answer_was_lost_is_not_repeated(
    database, scheduler, batch_system, make_job, allocation_of
):
    """As when sbatch times out, or the scheduler is killed before it can record the id."""
    job = make_job(runtime=QUEUE)
    batch_system.answers = False
    with pytest.raises(BatchSystemUnavailable):
        scheduler.follow_and_submit()
    assert allocation_of(job).external_id is None
    batch_system.answers = True
    scheduler.follow_and_submit()
    assert len(batch_system.requests) == 1
    assert allocation_of(job).external_id == "101"


def test_a_submission_that_never_arrived_is_repeated_under_the_same_name(
    database, scheduler, batch_system, queued_job, monkeypatch
):
    """Not before the first one, of this scheduler or another, can no longer arrive."""
    with monkeypatch.context() as patch:
        patch.setattr(batch_system, "submit", unanswered)
        with pytest.raises(BatchSystemUnavailable):
            scheduler.follow_and_submit()
    scheduler.follow_and_submit()
    assert batch_system.requests == []
    put(database, Allocation, submitted_at=from_now(-batch_system.submission_s))
    scheduler.follow_and_submit()
    assert [request.name for request in batch_system.requests] == [f"ampcore-{queued_job.id}-1-1"]


def unanswered(_request):
    raise BatchSystemUnavailable("Unable to contact slurm controller")


def test_of_two_schedulers_one_leads(database, scheduler, batch_system, make_job):
    make_job(runtime=QUEUE)
    second = new_scheduler(database, batch_system)
    second.follow_and_submit()
    assert batch_system.requests == []
    scheduler.stop_leading()
    second.renew_leases()
    second.follow_and_submit()
    assert len(batch_system.requests) == 1


def test_a_refusal_is_shown_and_tried_again_later(
    database, scheduler, batch_system, make_job, waiting_of
):
    job = make_job(runtime=QUEUE)
    batch_system.error = SubmissionRefused("Batch job submission failed: Invalid account.")
    scheduler.follow_and_submit()
    assert waiting_of(job) == (
        "Slurm does not accept it: Batch job submission failed: Invalid account. "
        "It is submitted again in 30 s."
    )
    batch_system.error = None
    scheduler.follow_and_submit()
    assert batch_system.requests == []
    put(database, Allocation, retry_at=from_now(-1))
    scheduler.follow_and_submit()
    assert [request.name for request in batch_system.requests] == [f"ampcore-{job.id}-1-2"]


def test_an_allocation_for_which_there_is_no_answer_does_not_hold_up_the_others(
    database, scheduler, batch_system, make_job, waiting_of
):
    jobs = [make_job(runtime=QUEUE) for _ in range(3)]
    submit = batch_system.submit

    def submit_or_fail(request):
        if request.job_id == jobs[0].id:
            raise BatchSystemUnavailable("500: a webhook failed")
        return submit(request)

    batch_system.submit = submit_or_fail
    for _ in range(2):
        with pytest.raises(BatchSystemUnavailable, match="webhook"):
            scheduler.follow_and_submit()
        put(database, Allocation, submitted_at=from_now(-batch_system.submission_s))
    assert {request.job_id for request in batch_system.requests} == {job.id for job in jobs[1:]}
    assert waiting_of(jobs[0]) == "It is being submitted to Slurm (500: a webhook failed)."


def test_a_round_ends_when_it_has_waited_long_for_answers(
    database, scheduler, batch_system, make_job, monkeypatch
):
    monkeypatch.setattr("server.allocations.scheduler.UNANSWERED_S", 0.0)
    for _ in range(9):
        make_job(runtime=QUEUE)
    monkeypatch.setattr(batch_system, "submit", unanswered)
    with pytest.raises(BatchSystemUnavailable):
        scheduler.follow_and_submit()
    with database.read() as session:
        assert len(session.scalars(select(Allocation)).all()) == 1


def test_a_refusal_that_lasts_for_weeks_adds_one_event_and_few_rows(
    database, scheduler, batch_system, queued_job, messages_of
):
    batch_system.error = SubmissionRefused("Invalid account.")
    for _ in range(allocations.KEPT + 3):
        scheduler.follow_and_submit()
        put(database, Allocation, retry_at=from_now(-1))
    assert messages_of(queued_job) == ["Slurm does not accept it: Invalid account."]
    with database.read() as session:
        numbers = [row.number for row in allocations.of_job(session, queued_job.id)]
    assert sorted(numbers) == list(range(4, allocations.KEPT + 4))
    batch_system.error = SubmissionRefused("Invalid partition.")
    scheduler.follow_and_submit()
    assert messages_of(queued_job)[1:] == ["Slurm does not accept it: Invalid partition."]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"state": "NODE_FAIL", "has_ended": True}, "NODE_FAIL"),
        ({"state": "FAILED", "has_ended": True, "reason": "NonZeroExitCode"}, "(NonZeroExitCode)"),
        (None, "LOST (The batch system no longer knows it; it was SUBMITTED before.)"),
    ],
)
def test_an_allocation_that_ends_before_its_worker_starts_is_replaced(
    database, scheduler, batch_system, queued_job, waiting_of, *, status, reason
):
    job = queued_job
    scheduler.follow_and_submit()
    name = batch_system.requests[0].name
    if status is None:
        del batch_system.known[name]
    else:
        batch_system.change(name, **status)
    scheduler.follow_and_submit()
    assert reason in waiting_of(job)
    assert "It is submitted again in 30 s." in waiting_of(job)
    put(database, Allocation, retry_at=from_now(-1))
    scheduler.follow_and_submit()
    assert len(batch_system.requests) == 2


def test_the_pauses_between_allocations_that_fail_become_longer():
    assert [allocations.pause_s(number) for number in (1, 2, 3, 6, 60)] == [30, 60, 120, 960, 960]


def test_the_next_attempt_gets_the_next_allocation_at_once(
    database, scheduler, batch_system, make_job
):
    """After a drain at the time limit, say: the allocation has done its work."""
    job = make_job(runtime=QUEUE)
    scheduler.follow_and_submit()
    with database.write() as session:
        attempts.claim(session, job.id, "a worker")
    batch_system.change(batch_system.requests[0].name, state="RUNNING", has_begun=True)
    scheduler.follow_and_submit()
    put(database, Job, Job.id == job.id, state=State.QUEUED)
    scheduler.follow_and_submit()
    assert len(batch_system.requests) == 1  # its worker still ends
    batch_system.change(batch_system.requests[0].name, state="COMPLETED", has_ended=True)
    scheduler.follow_and_submit()
    scheduler.follow_and_submit()
    assert [request.name for request in batch_system.requests] == [
        f"ampcore-{job.id}-1-1",
        f"ampcore-{job.id}-2-1",
    ]


def test_the_events_of_a_job_tell_refusals_and_allocations_that_ended_before_a_worker_ran_it(
    database, scheduler, batch_system, queued_job, messages_of
):
    batch_system.error = SubmissionRefused("Invalid account.")
    scheduler.follow_and_submit()
    batch_system.error = None
    put(database, Allocation, retry_at=from_now(-1))
    scheduler.follow_and_submit()
    name = batch_system.requests[0].name
    assert messages_of(queued_job) == ["Slurm does not accept it: Invalid account."]
    batch_system.change(name, state="FAILED", has_ended=True, reason="NonZeroExitCode")
    for _ in range(2):
        scheduler.follow_and_submit()
    assert messages_of(queued_job)[1:] == [
        "Slurm job 101 has ended before a worker ran it: FAILED (NonZeroExitCode)."
    ]
    with database.read() as session:
        event = events.read(session, queued_job.id, limit=100, types=["allocation"])[-1]
    assert (event.attempt, event.data["name"], event.data["state"]) == (0, name, "FAILED")


@pytest.mark.parametrize("change", ["claimed", "cancelled", "moved", "deleted"])
def test_the_end_of_an_allocation_that_no_job_waits_for_is_no_event(
    database, scheduler, batch_system, queued_job, messages_of, *, change
):
    scheduler.follow_and_submit()
    with database.write() as session:
        if change == "claimed":
            attempts.claim(session, queued_job.id, "a worker")
            attempts.requeue(session, queued_job.id, 1)
        elif change == "moved":
            session.execute(update(Job).values(queue="default"))
        else:
            jobs.request_cancel(session, queued_job.id)
        if change == "deleted":
            jobs.delete_job(session, queued_job.id)
    batch_system.change(batch_system.requests[0].name, state="COMPLETED", has_ended=True)
    scheduler.follow_and_submit()
    if change != "deleted":
        assert messages_of(queued_job) == []


def test_an_allocation_whose_id_was_not_recorded_before_it_ended_has_it_then(
    scheduler, batch_system, queued_job, allocation_of, waiting_of
):
    """As when the answer of sbatch is lost, and the node fails before the next round."""
    batch_system.answers = False
    with pytest.raises(BatchSystemUnavailable):
        scheduler.follow_and_submit()
    name = batch_system.requests[0].name
    batch_system.change(name, state="NODE_FAIL", has_ended=True, nodes="n1")
    scheduler.follow_and_submit()
    row = allocation_of(queued_job)
    assert (row.external_id, row.nodes, row.state) == ("101", "n1", "NODE_FAIL")
    assert waiting_of(queued_job).startswith("Slurm job 101 has ended before")


@pytest.mark.parametrize("change", ["cancel", "pause", "delete", "move"])
def test_an_allocation_that_is_no_longer_needed_is_cancelled(
    database, scheduler, batch_system, make_job, change
):
    job = make_job(runtime=QUEUE)
    scheduler.follow_and_submit()
    with database.write() as session:
        if change == "pause":
            jobs.request_pause(session, job.id)
        elif change == "move":
            session.execute(update(Job).where(Job.id == job.id).values(queue="default"))
        else:
            jobs.request_cancel(session, job.id)
        if change == "delete":
            jobs.delete_job(session, job.id)
    scheduler.follow_and_submit()
    assert batch_system.cancelled == ["101"]
    batch_system.change(batch_system.requests[0].name, state="CANCELLED", has_ended=True)
    scheduler.follow_and_submit()
    assert batch_system.cancelled == ["101"]
    assert len(batch_system.requests) == 1


def test_workers_of_a_job_that_has_ended_may_end_by_themselves(
    database, scheduler, batch_system, make_job
):
    job = make_job(runtime=QUEUE)
    scheduler.follow_and_submit()
    batch_system.change(batch_system.requests[0].name, state="RUNNING", has_begun=True)
    scheduler.follow_and_submit()
    put(database, Job, Job.id == job.id, state=State.SUCCEEDED, changed_at=from_now(0))
    scheduler.follow_and_submit()
    assert batch_system.cancelled == []
    put(database, Job, Job.id == job.id, changed_at=from_now(-END_GRACE_S))
    scheduler.follow_and_submit()
    assert batch_system.cancelled == ["101"]


def test_the_quota_of_a_project_counts_what_waits_in_the_batch_system(
    database, scheduler, batch_system, make_job, waiting_of
):
    first = make_job(runtime=QUEUE, project="small")
    with database.write() as session:
        projects.ensure(session, "small")
        session.execute(update(Project).where(Project.name == "small").values(max_running=1))
    make_job(runtime=QUEUE, project="small")
    scheduler.follow_and_submit()
    scheduler.follow_and_submit()
    assert [request.job_id for request in batch_system.requests] == [first.id]


def test_so_many_allocations_may_wait(database, batch_system, make_job):
    scheduler = new_scheduler(database, batch_system, max_pending=2)
    for _ in range(4):
        make_job(runtime=QUEUE)
    for _ in range(2):
        scheduler.follow_and_submit()
    assert len(batch_system.requests) == 2
