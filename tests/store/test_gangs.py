"""Gangs: all slots are reserved together, and the last worker that is ready claims the job."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import event, func, select, update

from ampspec.jobs import Reason, State
from store import workers
from store.access import projects
from store.clock import from_now
from store.gangs import gang_members, gangs
from store.jobs import attempts, jobs, lease_expiry
from store.listing import waiting_reason
from store.scheduling.gang_placement import DRAIN_AFTER_S, DRAINING_S
from store.tables import Attempt, Gang, GangMember, Job

LEASE_S = 30.0


@dataclass
class Scheduler:
    """Workers, gangs and rounds of the scheduler, on a database."""

    database: Any
    make_job: Any

    def write(self, function, *arguments, **options):
        with self.database.write() as session:
            return function(session, *arguments, **options)

    def add_worker(self, name, slots=1, **fields):
        """Register a worker that runs ranks."""
        fields |= {"hostname": f"host of {name}", "pid": 1, "version": "1"}
        self.write(workers.register, name, slots=slots, queues=("default",), **fields)
        self.write(workers.heartbeat, name, hardware={"gang_host": "10.0.0.1"})

    def make_gang(self, workers=2, devices=1, **runtime):
        return self.make_job(runtime={"workers": workers, "devices": devices, **runtime})

    def place(self):
        """Run one round of the scheduler; returns the reservations that it made, by job."""
        reservations = self.write(gangs.place)
        return {
            reservation.job_id: {share.worker_id: share.ranks for share in reservation.shares}
            for reservation in reservations
        }

    def be_ready(self, job, *names):
        """Let the workers of a reservation get ready; returns whether each was accepted."""
        return [
            self.write(
                gang_members.mark_ready,
                job.id,
                member.attempt,
                member.worker_id,
                [f"10.0.0.1:{4000 + member.first_rank + number}" for number in range(member.ranks)],
                lease_s=LEASE_S,
            )
            for member in self.members(job)
            if member.state == gang_members.RESERVED and (not names or member.worker_id in names)
        ]

    def run(self, job):
        """Start a gang at once."""
        assert job.id in self.place()
        assert all(self.be_ready(job))

    def renew(self, job, attempt, name, **values):
        return self.write(gang_members.renew, job.id, attempt, name, lease_s=LEASE_S, **values)

    def refreshed(self, job):
        with self.database.read() as session:
            return jobs.get(session, job.id)

    def members(self, job):
        with self.database.read() as session:
            return gang_members.listing(session, job.id)

    def expire(self, *conditions, seconds=1.0):
        """Let the leases of members end."""
        with self.database.write() as session:
            statement = update(GangMember).where(*conditions)
            session.execute(statement.values(lease_expires_at=from_now(-seconds)))


@pytest.fixture
def scheduler(database, make_job):
    return Scheduler(database, make_job)


def wait_for_long(put, job, seconds=DRAIN_AFTER_S + 1):
    put(job.id, queued_at=from_now(-seconds))


def test_a_gang_is_claimed_when_its_last_worker_is_ready(scheduler):
    for name in ("w0", "w1"):
        scheduler.add_worker(name, 2)
    job = scheduler.make_gang(2, 2)
    assert scheduler.place() == {job.id: {"w0": 2, "w1": 2}}
    assert scheduler.be_ready(job, "w1") == [True]
    assert scheduler.refreshed(job).state == State.QUEUED
    assert scheduler.be_ready(job, "w0") == [True]
    claimed = scheduler.refreshed(job)
    assert (claimed.state, claimed.attempt, claimed.worker_id) == (State.STARTING, 1, "w0")
    with scheduler.database.read() as session:
        assert session.get(Attempt, (job.id, 1)).ranks == 4
        begun = gang_members.started(session, job.id, 1, "w1")
    assert begun.addresses == tuple(f"10.0.0.1:{4000 + rank}" for rank in range(4))
    assert [(member.first_rank, member.state) for member in scheduler.members(job)] == [
        (0, "running"), (2, "running"),
    ]  # fmt: skip


def test_workers_for_one_job_run_only_its_ranks(scheduler):
    """Those of its queue stay free, and another gang does not get them."""
    other_gang, job = scheduler.make_gang(2), scheduler.make_gang(2)
    scheduler.add_worker("plain")
    for name in ("w0", "w1"):
        scheduler.add_worker(name, job_id=job.id)
    assert scheduler.place() == {job.id: {"w0": 1, "w1": 1}}
    assert all(scheduler.be_ready(job))
    assert scheduler.refreshed(job).state == State.STARTING
    assert scheduler.members(other_gang) == []


def test_a_gang_that_waits_for_its_own_workers_says_so(scheduler):
    job = scheduler.make_gang(2)
    scheduler.add_worker("w0", job_id=job.id)
    with scheduler.database.autocommit() as connection:
        rows = jobs.get_rows(connection, [job.id])
        sentence = waiting_reason.why_waiting(connection, rows)[job.id]
    assert sentence.endswith("that run ranks, and reach each other, have too few slots: 1.")


def test_a_gang_without_enough_slots_reserves_none(scheduler):
    scheduler.add_worker("w0")
    job = scheduler.make_gang(2)
    assert scheduler.place() == {}
    assert scheduler.members(job) == []


def test_no_slot_is_reserved_for_two_gangs(scheduler):
    for name in ("w0", "w1", "w2"):
        scheduler.add_worker(name)
    first, second = scheduler.make_gang(2), scheduler.make_gang(2)
    assert list(scheduler.place()) == [first.id]
    assert scheduler.place() == {}
    assert scheduler.members(second) == []


def test_servers_that_plan_at_the_same_time_reserve_each_slot_once(scheduler):
    """Checked: without locking the waiting gangs both servers reserve the slots."""
    for name in ("w0", "w1"):
        scheduler.add_worker(name)
    gang_jobs = [scheduler.make_gang(2) for _ in range(4)]
    start = Barrier(4)

    def one_round(_):
        start.wait()
        with scheduler.database.write() as session:
            return gangs.place(session)

    with ThreadPoolExecutor(4) as threads:
        reservations = [
            reservation
            for gang_jobs in threads.map(one_round, range(4))
            for reservation in gang_jobs
        ]
    assert [reservation.job_id for reservation in reservations] == [gang_jobs[0].id]
    with scheduler.database.read() as session:
        assert session.scalar(select(func.count()).select_from(GangMember)) == 2


def test_the_last_two_workers_may_be_ready_at_the_same_time(scheduler):
    """Checked: without the lock on the job neither transaction sees the other worker as ready."""
    for number in range(8):
        scheduler.add_worker(f"w{number}")
    job = scheduler.make_gang(8)
    scheduler.place()
    start = Barrier(8)

    def ready(number):
        start.wait()
        with scheduler.database.write() as session:
            return gang_members.mark_ready(
                session, job.id, 1, f"w{number}", [f"10.0.0.1:{number + 1}"], lease_s=LEASE_S
            )

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(ready, range(8)))
    assert scheduler.refreshed(job).state == State.STARTING


def test_a_reservation_that_expires_is_given_back_as_a_whole(scheduler):
    for name in ("w0", "w1", "w2"):
        scheduler.add_worker(name)
    job = scheduler.make_gang(2)
    scheduler.place()
    scheduler.be_ready(job, "w0")
    scheduler.expire(GangMember.worker_id == "w1")
    assert scheduler.be_ready(job, "w1") == [False]
    assert scheduler.place() == {job.id: {"w0": 1, "w1": 1}}
    assert [member.state for member in scheduler.members(job)] == ["reserved", "reserved"]


def test_a_reservation_ends_with_a_lost_or_draining_worker(scheduler):
    for name in ("w0", "w1", "w2"):
        scheduler.add_worker(name)
    job = scheduler.make_gang(2)
    scheduler.place()
    scheduler.be_ready(job, "w1")
    scheduler.write(workers.request_drain, "w0")
    assert scheduler.place() == {job.id: {"w1": 1, "w2": 1}}


@pytest.mark.parametrize("action", [jobs.request_cancel, jobs.request_pause])
def test_a_gang_that_no_longer_waits_gives_its_slots_back(scheduler, action):
    for name in ("w0", "w1"):
        scheduler.add_worker(name)
    job = scheduler.make_gang(2)
    scheduler.place()
    scheduler.be_ready(job, "w0")
    scheduler.write(action, job.id)
    assert scheduler.be_ready(job, "w1") == [False]
    assert scheduler.members(job) == []
    scheduler.place()
    state = scheduler.refreshed(job).state
    assert state == (State.CANCELLED if action is jobs.request_cancel else State.PAUSED)


def test_a_worker_that_withdraws_gives_the_whole_reservation_back(scheduler):
    for name in ("w0", "w1"):
        scheduler.add_worker(name)
    job = scheduler.make_gang(2)
    scheduler.place()
    scheduler.write(gang_members.withdraw, job.id, 1, "w1")
    assert scheduler.members(job) == []


def test_a_worker_claims_no_job_for_a_reserved_slot(scheduler):
    scheduler.add_worker("w0", 2)
    scheduler.add_worker("w1", 2)
    scheduler.make_gang(2)
    scheduler.place()
    plain = [scheduler.make_job() for _ in range(2)]

    def claim(spare_slots):
        return scheduler.write(attempts.claim_next, "w0", ["default"], spare_slots=spare_slots)

    assert claim(0) is None
    assert claim(1).id == plain[0].id


def test_a_claim_of_a_plain_job_takes_as_many_statements_as_before(scheduler):
    """The reserved slots are counted inside the statement that finds the next job."""
    scheduler.add_worker("w0", 2)
    scheduler.add_worker("w1", 2)
    scheduler.make_gang(2)
    scheduler.place()
    counts = []
    for options in ({}, {"spare_slots": 1}):
        scheduler.make_job()
        statements = []

        def record(_connection, _cursor, statement, *_, recorded=statements):
            recorded.append(statement)

        with scheduler.database.write() as session:
            event.listen(session.connection(), "before_cursor_execute", record)
            assert attempts.claim_next(session, "w0", ["default"], **options) is not None
            event.remove(session.connection(), "before_cursor_execute", record)
        counts.append(len(statements))
    assert counts[0] == counts[1]


def test_no_worker_claims_a_gang_as_a_plain_job(scheduler):
    scheduler.make_gang(2)
    assert scheduler.write(attempts.claim_next, "w0", ["default"]) is None


def test_a_gang_that_has_waited_reserves_the_slots_of_jobs_that_run(scheduler, put):
    scheduler.add_worker("some-worker")
    scheduler.add_worker("w1")
    running = scheduler.make_job(State.RUNNING)  # by some-worker
    job = scheduler.make_gang(2)
    assert scheduler.place() == {}
    wait_for_long(put, job)
    assert scheduler.place() == {job.id: {"some-worker": 1, "w1": 1}}
    # No job starts on these workers any more; the gang starts when the last one has ended.
    scheduler.make_job()
    for name in ("some-worker", "w1"):
        assert scheduler.write(attempts.claim_next, name, ["default"], spare_slots=0) is None
    assert scheduler.be_ready(job, "w1") == [True]
    scheduler.write(attempts.mark_succeeded, running.id, 1, {})
    assert scheduler.place() == {}, "the reservation stays"
    assert scheduler.be_ready(job, "some-worker") == [True]
    assert scheduler.refreshed(job).state == State.STARTING


def test_a_job_that_came_first_is_not_held_up_by_a_gang(scheduler, put):
    """Checked: without `may_drain` of `is_first` the gang reserves the slot first."""
    scheduler.add_worker("some-worker")
    scheduler.add_worker("w1")
    scheduler.make_job(State.RUNNING)
    earlier, job = scheduler.make_job(), scheduler.make_gang(2)
    wait_for_long(put, job)
    assert scheduler.place() == {}
    scheduler.write(attempts.claim, earlier.id, "w1")
    assert scheduler.place() == {job.id: {"some-worker": 1, "w1": 1}}


def test_a_first_job_that_no_worker_may_claim_does_not_hold_up_a_gang(scheduler, put):
    scheduler.add_worker("some-worker")
    scheduler.add_worker("w1")
    scheduler.make_job(State.RUNNING)
    model = {"kind": "bundle", "bundle": "sha256:" + 64 * "a"}
    scheduler.make_job(model=model)  # there is no sandbox
    scheduler.make_job(project="full")
    scheduler.write(projects.update, "full", {"max_running": 0})
    job = scheduler.make_gang(2)
    wait_for_long(put, job)
    assert job.id in scheduler.place()


def test_after_a_reservation_of_busy_slots_other_jobs_run(scheduler, put):
    scheduler.add_worker("some-worker")
    scheduler.add_worker("w1")
    scheduler.make_job(State.RUNNING)
    job = scheduler.make_gang(2)
    wait_for_long(put, job)
    assert job.id in scheduler.place()
    scheduler.expire()
    assert scheduler.place() == {}
    with scheduler.database.read() as session:
        gang = session.get(Gang, job.id)
        assert gang.draining_reservations == 1
        until_s = session.scalar(select(gangs.seconds_since(gang.backoff_until)))
    assert until_s == pytest.approx(-DRAINING_S, abs=20)
    scheduler.make_job()
    claimed = scheduler.write(attempts.claim_next, "w1", ["default"], spare_slots=0)
    assert claimed is not None, "the free slot is still reserved"
    scheduler.write(
        lambda session: session.execute(update(Gang).values(backoff_until=from_now(-1)))
    )
    assert job.id in scheduler.place()


@pytest.mark.parametrize("lost", ["w0", "w1"])
def test_the_attempt_ends_when_the_lease_of_one_worker_expires(scheduler, lost):
    for name in ("w0", "w1"):
        scheduler.add_worker(name)
    job = scheduler.make_gang(2)
    scheduler.run(job)
    assert scheduler.write(lease_expiry.expire) == []
    scheduler.expire(GangMember.worker_id == lost)
    [ended] = scheduler.write(lease_expiry.expire)
    assert (ended.state, ended.reason) == (State.QUEUED, Reason.WORKER_LOST)
    assert f"The worker of rank {lost[1]} ({lost}) stopped sending heartbeats." in ended.message
    for name in ("w0", "w1"):
        assert scheduler.renew(job, 1, name) == (False, None)


def test_a_stopping_gang_ends_only_after_a_lost_worker_must_have_fenced_itself(scheduler):
    for name in ("w0", "w1"):
        scheduler.add_worker(name)
    job = scheduler.make_gang(2)
    scheduler.run(job)
    scheduler.write(jobs.request_cancel, job.id)
    scheduler.expire(GangMember.worker_id == "w1")
    assert scheduler.write(lease_expiry.expire) == []
    scheduler.expire(GangMember.worker_id == "w1", seconds=lease_expiry.SELF_FENCE_S + 1)
    [ended] = scheduler.write(lease_expiry.expire)
    assert ended.state == State.CANCELLED


def test_the_next_attempt_of_a_gang_is_reserved_again(scheduler, put):
    for name in ("w0", "w1", "w2"):
        scheduler.add_worker(name)
    job = scheduler.make_gang(2)
    scheduler.run(job)
    # w2 is free, but only one slot: the ranks of the first attempt keep theirs until they end.
    scheduler.write(attempts.fail, job.id, 1, Reason.PROCESS_KILLED, "", outcome=State.FAILED)
    put(job.id, not_before=None)
    assert scheduler.place() == {}
    for name in ("w0", "w1"):
        scheduler.write(
            gang_members.end, job.id, 1, name, reason=Reason.RANK_LOST, message="A rank."
        )
    assert scheduler.place() == {job.id: {"w0": 1, "w1": 1}}
    assert scheduler.be_ready(job) == [True, True]
    assert scheduler.refreshed(job).attempt == 2
    assert [(member.attempt, member.state) for member in scheduler.members(job)] == [
        (1, "ended"), (1, "ended"), (2, "running"), (2, "running"),
    ]  # fmt: skip


def test_ranks_of_a_lost_worker_are_recorded_as_lost(scheduler):
    for name in ("w0", "w1"):
        scheduler.add_worker(name)
    job = scheduler.make_gang(2)
    scheduler.run(job)
    scheduler.expire(GangMember.worker_id == "w1")
    scheduler.write(gang_members.end_expired_members)
    assert scheduler.members(job)[1].state == "running", "its attempt is still active"
    scheduler.write(lease_expiry.expire)
    scheduler.write(gang_members.end_expired_members)
    assert [member.state for member in scheduler.members(job)] == ["running", "ended"]
    assert scheduler.members(job)[1].reason == Reason.WORKER_LOST


def test_requests_reach_the_other_workers_and_stop_requests_the_first(scheduler):
    for name in ("w0", "w1"):
        scheduler.add_worker(name)
    job = scheduler.make_gang(2)
    scheduler.run(job)
    devices = [{"rank": 1, "device": "/CPU:0", "state": "running"}]
    renew = scheduler.renew(job, 1, "w1", stop_request="shutdown", devices=devices)
    assert renew == (True, None)
    assert [member.stop_request for member in scheduler.members(job)] == [None, "shutdown"]
    assert scheduler.members(job)[1].devices == devices
    scheduler.write(gang_members.request_stop, job.id, 1)
    assert scheduler.renew(job, 1, "w1") == (True, gang_members.STOP)


def test_a_gang_counts_on_each_of_its_workers(scheduler):
    scheduler.add_worker("w0", 2)
    scheduler.add_worker("w1", 2)
    job = scheduler.make_gang(2, 2)
    scheduler.run(job)
    with scheduler.database.read() as session:
        assert workers.busy_slots(session.connection(), ["w0", "w1"]) == {"w0": 2, "w1": 2}
        assert workers.jobs_by_worker(session) == {"w0": [job.id], "w1": [job.id]}


def test_an_elastic_gang_grows_at_a_checkpoint_when_slots_become_free(scheduler, put):
    scheduler.add_worker("w0")
    job = scheduler.make_gang(2, elastic={"min": 1, "max": 2})
    scheduler.run(job)
    scheduler.write(attempts.mark_running, job.id, 1, total_steps=10, first_step=0)
    assert scheduler.write(gangs.request_growth) == []
    scheduler.add_worker("w1")
    assert scheduler.write(gangs.request_growth) == [], "it has just begun"
    scheduler.write(
        lambda session: session.execute(
            update(Attempt).values(started_at=from_now(-gangs.GROW_AFTER_S - 1))
        )
    )
    other_job = scheduler.make_job()
    assert scheduler.write(gangs.request_growth) == [], "another job waits for the slot"
    scheduler.write(attempts.claim, other_job.id, "w9")
    assert scheduler.write(gangs.request_growth) == [job.id]
    assert scheduler.refreshed(job).requested == gangs.RESIZE
    assert scheduler.write(gangs.request_growth) == []


def test_a_deleted_gang_leaves_no_rows(scheduler):
    scheduler.add_worker("w0", 2)
    job = scheduler.make_gang(1, 2)
    scheduler.run(job)
    scheduler.write(attempts.mark_running, job.id, 1, total_steps=10, first_step=0)
    scheduler.write(attempts.mark_succeeded, job.id, 1, {})
    assert scheduler.write(jobs.delete_job, job.id)
    with scheduler.database.read() as session:
        assert session.scalar(select(func.count()).select_from(GangMember)) == 0
        assert session.scalar(select(func.count()).select_from(Gang)) == 0
        assert session.get(Job, job.id) is None


@pytest.fixture
def why(scheduler):
    """Why a job waits."""

    def why(job):
        with scheduler.database.read() as session:
            connection = session.connection()
            [row] = jobs.get_rows(connection, [job.id])
            return waiting_reason.why_waiting(connection, [row]).get(job.id)

    return why


def test_a_waiting_gang_says_which_slots_it_needs(scheduler, why):
    job = scheduler.make_gang(2, 2)
    assert why(job).startswith("No online worker serves the queue 'default'")
    scheduler.add_worker("w0", 2)
    scheduler.add_worker("w1", 1)
    assert why(job) == (
        "It needs 4 slots, 2 on each of 2 workers. The online workers of the queue 'default' that "
        "run ranks, and reach each other, have too few slots: 2, 1."
    )
    scheduler.add_worker("w2", 2)
    scheduler.write(attempts.claim, scheduler.make_job().id, "w2")
    assert why(job) == "It waits for 4 slots, 2 on each of 2 workers: 4 of 5 slots are free."


def test_a_gang_with_reserved_slots_says_how_many_are_ready(scheduler, why, put):
    scheduler.add_worker("some-worker")
    scheduler.add_worker("w1")
    job = scheduler.make_gang(2)
    scheduler.place()
    assert why(job) == "2 slots are reserved for it, and 0 are ready; it starts shortly."
    scheduler.write(gang_members.delete_reservation, job.id)
    scheduler.make_job(State.RUNNING)
    wait_for_long(put, job)
    scheduler.place()
    scheduler.be_ready(job, "w1")
    assert why(job) == (
        "2 slots are reserved for it, and 1 are ready; it starts when the jobs in the others have "
        "ended."
    )


def test_a_plain_job_says_that_the_free_slots_are_reserved(scheduler, why):
    for name in ("w0", "w1"):
        scheduler.add_worker(name)
    scheduler.make_gang(2)
    scheduler.place()
    assert why(scheduler.make_job()) == (
        "It is number 2 in the queue 'default', and the free slots are reserved for a job with "
        "several ranks."
    )


def test_an_elastic_gang_says_how_few_ranks_are_enough(scheduler, why):
    scheduler.add_worker("w0", 4)
    scheduler.write(attempts.claim, scheduler.make_job().id, "w0")
    job = scheduler.make_gang(1, 4, elastic={"min": 2, "max": 4})
    assert why(job) == (
        "It waits for 4 slots of one worker, or fewer for at least 2 ranks: 3 of 4 slots are free."
    )


def test_nothing_is_planned_without_gangs(scheduler):
    scheduler.make_job()
    assert not scheduler.write(gangs.are_unfinished)
    scheduler.make_gang(2)
    assert scheduler.write(gangs.are_unfinished)


def test_the_gang_of_the_project_with_the_smaller_share_is_placed_first(scheduler):
    scheduler.add_worker("w1", slots=2)
    scheduler.write(projects.ensure, "greedy")
    scheduler.write(projects.ensure, "modest")
    scheduler.write(projects.update, "greedy", {"weight": 0.5})
    running = scheduler.make_job(project="greedy")
    scheduler.write(attempts.claim, running.id, "elsewhere")
    runtime = {"workers": 1, "devices": 2}
    scheduler.make_job(project="greedy", runtime={**runtime, "priority": 9})
    modest = scheduler.make_job(project="modest", runtime=runtime)
    assert list(scheduler.place()) == [modest.id]


def test_a_gang_gets_no_more_ranks_than_the_device_quota_leaves(scheduler, put):
    scheduler.add_worker("w1", slots=8)
    scheduler.write(projects.update, "default", {"max_devices": 3})
    elastic = scheduler.make_gang(1, 4, elastic={"min": 2, "max": 4})
    put(elastic.id, queued_at=from_now(-2 * DRAIN_AFTER_S))
    assert scheduler.place() == {elastic.id: {"w1": 2}}
    # What is reserved counts: one device is left.
    for _ in range(2):
        scheduler.make_job()
    claim = partial(scheduler.write, attempts.claim_next, "w1", ["default"], spare_slots=7)
    assert claim() is not None
    assert claim() is None


def test_a_reserved_gang_counts_as_a_running_job(scheduler, why):
    """Fails if only claimed jobs count: a job would start, and then the gang."""
    scheduler.write(projects.update, "default", {"max_running": 1})
    for name in ("w0", "w1", "w2"):
        scheduler.add_worker(name)
    gang = scheduler.make_gang()
    assert list(scheduler.place()) == [gang.id]
    job = scheduler.make_job()
    assert scheduler.write(attempts.claim_next, "w2", ["default"]) is None
    assert "quota of 1 running job;" in why(job)
    assert "slots are reserved for it" in why(gang)
    assert scheduler.place() == {}
    assert all(scheduler.be_ready(gang))
    assert scheduler.refreshed(gang).state == State.STARTING


def test_a_gang_is_not_asked_to_grow_beyond_its_quota(scheduler, put):
    scheduler.add_worker("w0")
    job = scheduler.make_gang(2, elastic={"min": 1, "max": 2})
    put(job.id, queued_at=from_now(-2 * DRAIN_AFTER_S))
    scheduler.run(job)
    scheduler.write(attempts.mark_running, job.id, 1, total_steps=10, first_step=0)
    scheduler.write(projects.update, "default", {"max_devices": 1})
    scheduler.add_worker("w1")
    with scheduler.database.write() as session:
        session.get(Attempt, (job.id, 1)).started_at -= timedelta(hours=1)
    assert scheduler.write(gangs.request_growth) == []
    scheduler.write(projects.update, "default", {"max_devices": 2})
    assert scheduler.write(gangs.request_growth) == [job.id]


def test_a_rigid_gang_waits_until_its_quota_allows_all_of_its_ranks(scheduler, why):
    scheduler.add_worker("w1", slots=8)
    scheduler.write(projects.update, "default", {"max_devices": 4})
    running = scheduler.make_job()
    scheduler.write(attempts.claim, running.id, "elsewhere")
    gang = scheduler.make_gang(workers=1, devices=4)
    assert scheduler.place() == {}
    assert "uses 1 of its quota of 4 devices, and this job needs 4" in why(gang)
    scheduler.write(attempts.requeue, running.id, 1)
    scheduler.write(jobs.request_cancel, running.id)
    assert list(scheduler.place()) == [gang.id]


def test_a_gang_whose_reserved_slots_use_up_the_quota_is_not_told_to_wait_for_it(scheduler, why):
    """Fails if its own reservation counts against it."""
    scheduler.add_worker("w1", slots=8)
    scheduler.write(projects.update, "default", {"max_devices": 4})
    gang = scheduler.make_gang(workers=1, devices=4)
    assert list(scheduler.place()) == [gang.id]
    assert why(gang) == "4 slots are reserved for it, and 0 are ready; it starts shortly."
