"""Whose job is next, and what the quotas of devices and device hours allow."""

import threading
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select, text

from ampspec.jobs import State
from ampspec.jobs.tracked import TrackedSpec
from store import workers
from store.access import project_usage, projects
from store.access.project_usage import HALF_LIFE_DAYS, WINDOW_DAYS
from store.clock import from_now
from store.jobs import attempts, jobs, tracked_runs
from store.listing import waiting_reason
from store.scheduling import fair_share
from store.scheduling.fair_share import POINT_S, ProjectShare, Use, in_order, turn_at
from store.tables import Attempt, Job, Project, ProjectUsage
from tests.databases import ON_POSTGRESQL
from tests.waiting import DEADLINE_S, join


@pytest.fixture
def claim(in_transaction):
    """Claim the next job; returns its row, or None."""

    def claim(worker_id="w"):
        return in_transaction(attempts.claim_next, worker_id, ["default"])

    return claim


@pytest.fixture
def finish(in_transaction):
    def finish(job):
        in_transaction(attempts.mark_running, job.id, job.attempt, total_steps=1, first_step=0)
        return in_transaction(attempts.mark_succeeded, job.id, job.attempt, {"steps": 1})

    return finish


@pytest.fixture
def use(database):
    """Record device hours of a project, so many days ago."""

    def use(project, hours, days_ago=0):
        with database.write() as session:
            projects.ensure(session, project)
            now_s = session.scalar(select(fair_share.now())).timestamp()
            day = int(now_s / project_usage.DAY_S) - days_ago
            session.merge(ProjectUsage(project=project, day=day, device_s=3600 * hours))

    return use


@pytest.fixture
def set_project(in_transaction):
    def set_project(name, **changes):
        in_transaction(projects.update, name, changes)

    return set_project


@pytest.fixture
def project_share(database):
    def project_share(project):
        with database.read() as session:
            return fair_share.project_shares(session.connection(), [project])[project]

    return project_share


@pytest.fixture
def why(database, in_transaction):
    """Why a job waits, with one busy worker online."""
    fields = {"hostname": "h", "pid": 1, "version": "1", "queues": ("default",)}
    in_transaction(workers.register, "w", slots=1, **fields)

    def why(job):
        with database.autocommit() as connection:
            rows = jobs.get_rows(connection, [job.id])
            return waiting_reason.why_waiting(connection, rows)[job.id]

    return why


# ---- Between projects


def test_projects_of_equal_weight_take_turns(claim, make_job):
    for project in ("a", "b", "c"):
        for _ in range(4):
            make_job(project=project)
    claimed = [claim().project for _ in range(9)]
    for start in (0, 3, 6):
        assert set(claimed[start : start + 3]) == {"a", "b", "c"}


def test_one_project_with_a_long_queue_does_not_delay_another(claim, make_job):
    """Fails if the oldest job of any project goes first."""
    for _ in range(20):
        make_job(project="flood")
    assert claim().project == "flood"
    late = make_job(project="late")
    assert claim().id == late.id


def test_devices_are_shared_by_weight(claim, make_job, set_project):
    set_project("heavy", weight=3.0)
    for project in ("heavy", "light"):
        for _ in range(9):
            make_job(project=project)
    assert Counter(claim().project for _ in range(8)) == {"heavy": 6, "light": 2}


def test_a_project_that_used_much_goes_after_one_that_used_little(claim, make_job, use):
    use("much", 100.0)
    use("little", 1.0)
    first, second = make_job(project="much"), make_job(project="little")
    assert [claim().id, claim().id] == [second.id, first.id]


def test_use_counts_half_after_a_day(use, project_share):
    use("p", 8.0, days_ago=0)
    assert project_share("p").use.recent_hours == 8.0
    use("p", 0.0, days_ago=0)
    use("p", 8.0, days_ago=5)
    # The day ended between four and five days ago.
    recent = project_share("p").use.recent_hours
    assert 8.0 * 0.5 ** (5 / HALF_LIFE_DAYS) < recent <= 8.0 * 0.5 ** (4 / HALF_LIFE_DAYS)
    assert project_share("p").use.window_hours == 8.0
    use("p", 8.0, days_ago=WINDOW_DAYS + 1)
    assert project_share("p").use.window_hours == 8.0


def test_the_use_of_an_attempt_is_recorded_when_it_ends(
    claim, finish, make_job, database, project_share
):
    make_job()
    job = claim()
    with database.write() as session:
        attempt = session.get(Attempt, (job.id, 1))
        attempt.started_at -= timedelta(hours=2)
        attempt.ranks = 8
    running = project_share("default")
    assert running.use.devices == 8
    assert running.use.recent_hours == pytest.approx(16, rel=0.01)
    finish(job)
    ended = project_share("default")
    assert ended.use.devices == 0
    assert ended.use.recent_hours == pytest.approx(16, rel=0.01)
    with database.read() as session:
        [row] = session.scalars(select(ProjectUsage))
    assert row.device_s == pytest.approx(16 * 3600, rel=0.01)


def test_a_second_attempt_adds_to_the_use_of_the_day(claim, finish, make_job, database):
    for _ in range(2):
        make_job()
        job = claim()
        with database.write() as session:
            session.get(Attempt, (job.id, 1)).started_at -= timedelta(hours=1)
        finish(job)
    with database.read() as session:
        used_s = [row.device_s for row in session.scalars(select(ProjectUsage))]
    assert sum(used_s) == pytest.approx(7200, rel=0.01)


def test_tracked_runs_use_no_devices(in_transaction, database, project_share):
    run = in_transaction(tracked_runs.create, TrackedSpec(name="x"), jobs.Origin("default"))
    assert project_share("default").use == Use()
    facts = {"entries": 0, "message": None, "summary": {}}
    in_transaction(tracked_runs.finish, run.id, State.SUCCEEDED, **facts)
    with database.read() as session:
        assert session.scalars(select(ProjectUsage)).all() == []


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0.001, 1000)), min_size=1, max_size=8))
def test_the_order_is_that_of_the_documented_formula(uses):
    shares = {
        str(number): ProjectShare(str(number), weight, None, None, None, Use(recent_hours=hours))
        for number, (hours, weight) in enumerate(uses)
    }
    turns = {name: turn_at(NEW_YEAR, int(name)) for name in shares}
    ordered = in_order(shares, turns)
    shares = [hours / weight for hours, weight in (uses[int(share.project)] for share in ordered)]
    assert shares == sorted(shares)


NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


# ---- Inside a project


def test_a_point_of_priority_is_worth_six_hours(claim, make_job, put, in_transaction):
    fresh = make_job(runtime={"priority": 9})
    old = make_job(runtime={"priority": 0})
    just_before, just_after = 9 * POINT_S - 60, 9 * POINT_S + 60
    put(old.id, turn_at=from_now(-just_before))
    assert claim().id == fresh.id
    fresh = make_job(runtime={"priority": 9})
    put(old.id, turn_at=from_now(-just_after))
    assert claim().id == old.id


def test_a_job_of_the_lowest_priority_does_not_wait_for_ever(claim, finish, make_job, database):
    """A flood of urgent jobs, one an hour, delays it by at most the difference of priorities."""
    lowly = make_job(runtime={"priority": 0})
    hours = 0
    while True:
        with database.write() as session:  # an hour goes by
            for job in session.scalars(select(Job).where(Job.state == State.QUEUED)):
                job.turn_at -= timedelta(hours=1)
        hours += 1
        make_job(runtime={"priority": 9})
        claimed = claim()
        finish(claimed)
        if claimed.id == lowly.id:
            break
        assert hours < 60
    assert hours == 9 * POINT_S / 3600


def test_a_changed_priority_changes_the_turn(in_transaction, make_job, database):
    job = make_job(runtime={"priority": 2})
    in_transaction(jobs.edit, job.id, {"priority": 9})
    with database.read() as session:
        changed = session.get(Job, job.id)
        assert changed.turn_at == turn_at(changed.created_at, 9)


def test_a_job_that_an_older_version_has_queued_is_claimed(claim, make_job, put):
    job = make_job()
    put(job.id, turn_at=None)
    assert claim().id == job.id


# ---- Quotas


def test_a_project_gets_no_more_devices_than_its_quota(claim, finish, make_job, set_project, why):
    set_project("p", max_devices=2)
    project_jobs = [make_job(project="p") for _ in range(3)]
    other_job = make_job(project="q")
    claimed = [claim() for _ in range(3)]
    assert {job.project for job in claimed} == {"p", "q"}
    assert claim() is None
    assert why(project_jobs[2]) == (
        "The project 'p' uses 2 of its quota of 2 devices, and this job needs 1; it starts when "
        "others end."
    )
    finish(next(job for job in claimed if job.project == "p"))
    assert claim().id == project_jobs[2].id
    assert other_job.id in {job.id for job in claimed}


def test_the_ranks_of_a_gang_count_as_devices(claim, make_job, set_project, database):
    make_job(project="p")
    gang = claim()
    with database.write() as session:
        session.get(Attempt, (gang.id, 1)).ranks = 64
    set_project("p", max_devices=64)
    make_job(project="p")
    assert claim() is None
    set_project("p", max_devices=65)
    assert claim() is not None


def test_a_gang_above_the_quota_says_so(make_job, set_project, why):
    set_project("default", max_devices=8)
    gang = make_job(runtime={"workers": 64})
    assert why(gang) == ("It needs 64 devices, more than the quota of its project 'default', 8.")


def test_device_hours_are_a_quota(claim, make_job, set_project, use, why):
    set_project("p", max_device_hours=10.5)
    use("p", 10.0, days_ago=3)
    job = make_job(project="p")
    assert claim().id == job.id
    use("p", 0.5)
    waiting = make_job(project="p")
    assert claim() is None
    assert why(waiting) == (
        "The project 'p' has used 10.5 of its quota of 10.5 device hours in 30 days; it starts "
        "once enough of this use is more than 30 days old."
    )


def test_a_project_without_device_hours_is_told_so(claim, make_job, set_project, why):
    set_project("p", max_device_hours=0)
    job = make_job(project="p")
    assert claim() is None
    assert why(job) == "The project 'p' may not use devices: its quota is 0 device hours."


@ON_POSTGRESQL
def test_concurrent_claims_respect_the_quota_of_devices(database, make_job, set_project):
    """Fails if the use is not counted again under the lock."""
    set_project("p", max_devices=2)
    for _ in range(8):
        make_job(project="p")
    start, claimed = threading.Barrier(6), []

    def claim_one():
        start.wait(DEADLINE_S)
        with database.write() as session:
            claimed.append(attempts.claim_next(session, "w", ["default"]))

    threads = [threading.Thread(target=claim_one) for _ in range(6)]
    for thread in threads:
        thread.start()
    join(*threads)
    assert sum(job is not None for job in claimed) == 2


@ON_POSTGRESQL
def test_a_claim_locks_only_the_project_of_its_job(database, make_job, set_project, use):
    """Fails if each claim locks all projects with a quota."""
    for project in ("busy", "idle"):
        set_project(project, max_running=9, max_devices=9)
    use("busy", 50.0)
    make_job(project="busy")
    job = make_job(project="idle")
    with database.write() as second_session:
        locked = select(Project).where(Project.name == "busy").with_for_update()
        assert second_session.scalars(locked).one().name == "busy"
        with database.write() as session:
            session.execute(text("SET LOCAL lock_timeout = '5s'"))
            assert attempts.claim_next(session, "w", ["default"]).id == job.id


@ON_POSTGRESQL
def test_a_claim_keeps_no_lock_of_a_project_without_a_job_for_it(
    database, make_job, set_project, use
):
    """Claims reach projects in different orders, and would wait for each other for ever."""
    for project in ("first", "second"):
        set_project(project, max_running=9)
    use("second", 50.0)
    edited, job = make_job(project="first"), make_job(project="second")
    with database.write() as second_session, database.write() as session, database.write() as third:
        second_session.execute(select(Job.id).where(Job.id == edited.id).with_for_update())
        assert attempts.claim_next(session, "w", ["default"]).id == job.id
        lock = select(Project.name).order_by(Project.name)
        free = third.scalars(lock.with_for_update(skip_locked=True)).all()
        assert "first" in free
        assert "second" not in free


# ---- What a person reads


def test_a_waiting_job_says_which_projects_go_first_and_why(claim, make_job, use, why, set_project):
    set_project("a", weight=2.0)
    use("a", 20.0)
    make_job(project="b")
    claim()
    late, next_one = make_job(project="a"), make_job(project="b")
    assert why(late) == (
        "It is number 1 of its project's jobs in the queue 'default', and the only slot of its "
        "workers is busy. 1 project goes first: its project's share is 10.00 = (20.00 recent "
        "device hours + 0 devices) / 2; that of 'b' is 1.00."
    )
    assert why(next_one) == (
        "It is number 1 of its project's jobs in the queue 'default', and the only slot of its "
        "workers is busy. The project 'b' is next: its project's share is 1.00 = (0.00 recent "
        "device hours + 1 device) / 1."
    )


def test_a_project_that_cannot_start_a_job_does_not_go_first(
    *, claim, make_job, use, put, why, set_project
):
    use("late", 20.0)
    make_job(project="late")
    claim()
    waiting = make_job(project="late")
    set_project("full", max_running=0)
    make_job(project="full")
    put(make_job(project="failing").id, not_before=from_now(3600.0))
    assert why(waiting) == (
        "It is number 1 in the queue 'default', and the only slot of its workers is busy."
    )
    make_job(project="free")
    assert "1 project goes first: " in why(waiting)


def test_a_project_alone_is_not_told_of_shares(claim, make_job, why):
    make_job()
    claim()
    assert why(make_job()) == (
        "It is number 1 in the queue 'default', and the only slot of its workers is busy."
    )
