import pytest
from sqlalchemy import event, text
from sqlalchemy.orm import Session

from ampspec.jobs import Reason, State
from store import leases, metrics_queries
from store.access import projects
from store.clock import from_now
from store.jobs import attempts, jobs
from store.tables import Attempt
from tests.tables import every_row


def claim_next(session, *queues, **options):
    job = attempts.claim_next(session, "w", queues or ["default"], **options)
    return job and job.id


def test_jobs_are_claimed_by_priority_and_then_by_age(in_transaction, make_job, put):
    first, second = make_job(), make_job()
    urgent, late = make_job(runtime={"priority": 9}), make_job(runtime={"priority": 0})
    put(first.id, created_at=from_now(-60))
    put(second.id, created_at=from_now(-30))
    taken = [in_transaction(claim_next) for _ in range(5)]
    assert taken == [urgent.id, first.id, second.id, late.id, None]


def test_an_edited_priority_applies_to_the_next_claim(in_transaction, make_job, put):
    first, second = make_job(), make_job()
    put(first.id, created_at=from_now(-60))
    in_transaction(jobs.edit, second.id, {"priority": 6})
    assert in_transaction(claim_next) == second.id


def test_a_worker_claims_only_jobs_of_its_queues(in_transaction, make_job):
    big = make_job(runtime={"queue": "big"})
    assert in_transaction(claim_next) is None
    assert in_transaction(claim_next, "default", "big") == big.id


def test_a_job_is_not_claimed_before_it_is_due(in_transaction, make_job, put):
    job = make_job()
    put(job.id, not_before=from_now(60))
    assert in_transaction(claim_next) is None
    put(job.id, not_before=from_now(-1))
    assert in_transaction(claim_next) == job.id


def test_claiming_skips_a_project_at_its_running_quota(in_transaction, make_job, put):
    in_transaction(projects.update, "small", {"max_running": 1})
    first, second, other_job = make_job(project="small"), make_job(project="small"), make_job()
    put(first.id, turn_at=from_now(-200_060))
    put(second.id, turn_at=from_now(-200_030))
    assert [in_transaction(claim_next) for _ in range(3)] == [first.id, other_job.id, None]
    in_transaction(attempts.requeue, first.id, 1)
    assert in_transaction(claim_next) == first.id


@pytest.mark.parametrize("options", [{}, {"spare_slots": 0}], ids=["any", "unreserved"])
def test_claiming_reads_the_next_job_from_the_index_in_claim_order(
    database, in_transaction, make_job, options
):
    for _ in range(30):
        make_job()
    plan = "EXPLAIN QUERY PLAN" if database.engine.dialect.name == "sqlite" else "EXPLAIN"
    statements = []

    def record(_connection, cursor, statement, parameters, *_):
        if "LIMIT" in statement:
            statements.append((statement, parameters))

    with database.write() as session:
        event.listen(session.connection(), "before_cursor_execute", record)
        claim_next(session, **options)
        if plan == "EXPLAIN":
            session.execute(text("SET LOCAL enable_seqscan = off"))
            session.execute(text("SET LOCAL enable_bitmapscan = off"))
            # It then sorts only if no index has the order, although the table is small.
            session.execute(text("SET LOCAL enable_sort = off"))
        assert len(statements) == 2  # the turns of all projects, and the job of one
        plans = [
            str(session.connection().exec_driver_sql(f"{plan} {statement}", parameters).all())
            for statement, parameters in tuple(statements)
        ]
    for plan_rows in plans:
        assert "ix_jobs_turn" in plan_rows
        assert "Sort" not in plan_rows
        assert "TEMP B-TREE" not in plan_rows


def test_the_queue_wait_of_an_attempt_is_stored(database, in_transaction, make_job, put):
    job = make_job()
    put(job.id, queued_at=from_now(-90))
    in_transaction(attempts.claim, job.id, "w")
    with database.read() as session:
        [attempt] = attempts.listing(session, job.id)
    assert attempt.waited_s == pytest.approx(90, abs=5)
    assert (attempt.attempt, attempt.worker_id, attempt.outcome) == (1, "w", None)


def test_the_first_step_of_an_attempt_is_stored(database, in_transaction, make_job):
    job = make_job(State.STARTING)
    running = in_transaction(attempts.mark_running, job.id, 1, total_steps=100, first_step=40)
    assert (running.step, running.total_steps) == (40, 100)
    with database.read() as session:
        assert session.get(Attempt, (job.id, 1)).first_step == 40


@pytest.mark.parametrize("state", [State.PAUSING, State.STOPPING], ids=str)
def test_marking_a_stopping_job_running_stores_its_steps_and_keeps_its_state(
    database, in_transaction, make_job, state
):
    job = make_job(state)
    assert (
        in_transaction(attempts.mark_running, job.id, 1, total_steps=7, first_step=3).state == state
    )
    with database.read() as session:
        assert jobs.get(session, job.id).total_steps == 7
        assert session.get(Attempt, (job.id, 1)).first_step == 3


ENDS = {
    "running": lambda s, i, n: attempts.mark_running(s, i, n, total_steps=9, first_step=0),
    "succeeded": lambda s, i, n: attempts.mark_succeeded(s, i, n, {}),
    "failed": lambda s, i, n: attempts.mark_failed(s, i, n, Reason.TIMEOUT, "Too slow."),
    "lost": lambda s, i, n: attempts.mark_failed(s, i, n, Reason.WORKER_LOST, "Gone."),
    "cancelled": attempts.mark_cancelled,
    "paused": attempts.mark_paused,
    "requeued": attempts.requeue,
}


@every_row("state", State)
def test_an_attempt_that_is_not_active_changes_nothing(database, make_job, state):
    job = make_job(state)
    other_attempts = {job.attempt - 1, job.attempt + 1}
    if not job.lease_expires_at:
        other_attempts.add(job.attempt)
    for end, move in ENDS.items():
        for attempt in other_attempts:
            with database.write() as session:
                assert move(session, job.id, attempt) is None, (end, attempt)
                row = jobs.get(session, job.id)
                assert (row.state, row.seq) == (job.state, job.seq), (end, attempt)


def test_a_failed_job_stores_the_outcome_in_its_attempt_and_has_no_lease(database, make_job):
    job = make_job(State.FAILED)
    with database.read() as session:
        row, attempt = jobs.get(session, job.id), session.get(Attempt, (job.id, 1))
        assert (row.reason, row.message) == (Reason.INVALID_DATA, "The data is NaN.")
        assert (attempt.outcome, attempt.reason) == (State.FAILED, Reason.INVALID_DATA)
        assert row.lease_expires_at is None
        assert row.finished_at is not None
        assert attempt.finished_at is not None


def test_non_finite_numbers_in_a_summary_are_stored_as_strings(database, in_transaction, make_job):
    job = make_job(State.RUNNING)
    in_transaction(attempts.mark_succeeded, job.id, 1, {"final_loss": float("nan")})
    with database.read() as session:
        assert jobs.get(session, job.id).summary == {"final_loss": "NaN"}


def test_a_killed_process_is_retried_after_a_backoff_up_to_max_attempts(
    in_transaction, make_job, put
):
    job_id = make_job(runtime={"max_attempts": 2}).id
    in_transaction(attempts.claim, job_id, "w")
    job = in_transaction(attempts.mark_failed, job_id, 1, Reason.PROCESS_KILLED, "It was killed.")
    assert (job.state, job.failures, job.dispatched_at) == (State.QUEUED, 1, None)
    assert job.message == (
        "It was killed. In 5 s it trains again, from the beginning: attempt 2 of 2."
    )
    assert 3 < (job.not_before - job.updated_at).total_seconds() < 7
    assert in_transaction(claim_next) is None
    put(job_id, not_before=from_now(-1))
    assert in_transaction(claim_next) == job_id
    job = in_transaction(attempts.mark_failed, job_id, 2, Reason.PROCESS_KILLED, "It was killed.")
    assert (job.state, job.failures) == (State.FAILED, 2)
    assert job.message == (
        "It was killed. 2 attempts failed. Retry it to train from the beginning."
    )


@pytest.mark.parametrize("reason", [Reason.OUT_OF_MEMORY, Reason.INVALID_DATA], ids=str)
def test_a_permanent_failure_is_not_retried(in_transaction, make_job, reason):
    job = make_job(State.RUNNING)
    ended = in_transaction(attempts.mark_failed, job.id, 1, reason, "Make the batch smaller.")
    assert (ended.state, ended.message) == (State.FAILED, "Make the batch smaller.")


def test_a_job_that_fails_while_it_pauses_is_paused(in_transaction, make_job):
    job = make_job(State.PAUSING)
    ended = in_transaction(attempts.mark_failed, job.id, 1, Reason.PROCESS_KILLED, "It was killed.")
    assert (ended.state, ended.failures, ended.requested) == (State.PAUSED, 1, None)
    assert "resume the job to train from the beginning" in ended.message


def test_requeueing_a_job_counts_no_failure(database, in_transaction, make_job):
    job = make_job(State.RUNNING)
    back = in_transaction(attempts.requeue, job.id, 1)
    assert (back.state, back.failures, back.reason) == (State.QUEUED, 0, Reason.WORKER_SHUTDOWN)
    with database.read() as session:
        assert session.get(Attempt, (job.id, 1)).outcome == "requeued"
    assert in_transaction(claim_next) == job.id
    assert in_transaction(leases.renew_lease, job.id, 1) is None


def test_the_outcome_of_attempts_that_version_0_5_requeued_is_read(
    database, in_transaction, make_job
):
    for old in (False, True):
        job = make_job(State.RUNNING)
        in_transaction(attempts.requeue, job.id, 1)
        if old:
            statement = text("UPDATE attempts SET outcome = 'handed_back' WHERE job_id = :id")
            in_transaction(Session.execute, statement, {"id": job.id})
    with database.read() as session:
        assert session.get(Attempt, (job.id, 1)).outcome == "requeued"
        assert [attempt.outcome for attempt in attempts.listing(session, job.id)] == ["requeued"]
        assert metrics_queries.attempts_by_outcome(session) == [["requeued", 2]]


def test_the_used_time_is_the_sum_of_the_ended_attempts(database, in_transaction, make_job):
    job = make_job()
    with database.write() as session:
        for number, lasted_s in ((1, 10.0), (2, 5.5)):
            session.add(
                Attempt(
                    job_id=job.id,
                    attempt=number,
                    worker_id="w",
                    started_at=from_now(-100),
                    finished_at=from_now(-100 + lasted_s),
                )
            )
        session.add(Attempt(job_id=job.id, attempt=3, worker_id="w", started_at=from_now(-9)))
    with database.read() as session:
        used_s = attempts.used_s(session, job.id)
        assert isinstance(used_s, float)
        assert used_s == pytest.approx(15.5, abs=0.1)
        assert attempts.used_s(session, "0" * 12) == 0
