import pytest

from ampspec.jobs import State
from store import workers
from store.access import projects
from store.clock import from_now
from store.jobs import attempts, jobs, queue
from store.listing import waiting_reason
from tests.tables import every_row


@pytest.fixture
def why(database, in_transaction):
    """The reason why a job waits."""

    def why(job_id):
        with database.read() as session:
            connection = session.connection()
            [job] = jobs.get_rows(connection, [job_id])
            return waiting_reason.why_waiting(connection, [job]).get(job_id)

    return why


@pytest.fixture
def register(in_transaction):
    """Register a worker."""

    def register(worker_id="w", slots=2, queues=("default",), job_id=None):
        fields = {"hostname": "h", "pid": 1, "version": "1", "queues": queues, "job_id": job_id}
        in_transaction(workers.register, worker_id, slots=slots, **fields)

    return register


def test_explaining_a_job_that_changed_or_was_deleted_meanwhile_is_no_error(
    in_transaction, make_job, database, put
):
    """The job and its rank are read by two queries, which may see different states."""
    job_id = make_job().id
    put(job_id, not_before=from_now(60))
    with database.read() as session:
        [row] = jobs.get_rows(session.connection(), [job_id])
    put(job_id, not_before=None)
    with database.autocommit() as connection:
        assert waiting_reason.why_waiting(connection, [row])[job_id]
    in_transaction(jobs.request_cancel, job_id)
    in_transaction(jobs.delete_job, job_id)
    with database.autocommit() as connection:
        assert waiting_reason.why_waiting(connection, [row]) == {}


def test_a_worker_for_one_job_is_no_hope_for_the_others(make_job, register, why):
    job, other_job = make_job(), make_job()
    register(job_id=job.id)
    assert why(job.id) == (
        "A worker for this job alone was started on h; it starts the job shortly."
    )
    assert why(other_job.id).startswith("No online worker serves the queue 'default';")


def test_a_job_that_is_claimed_while_it_is_explained_has_no_reason(
    in_transaction, make_job, database, register, monkeypatch
):
    """Fails if a job without a rank is taken for one behind a long queue."""
    register(slots=1)
    job_id = make_job().id
    ranks = waiting_reason._ranks_by_line

    def claimed_before(*arguments):
        in_transaction(attempts.claim_next, "w", ["default"])
        return ranks(*arguments)

    monkeypatch.setattr(waiting_reason, "_ranks_by_line", claimed_before)
    with database.autocommit() as connection:
        rows = jobs.get_rows(connection, [job_id])
        assert waiting_reason.why_waiting(connection, rows) == {}


def undispatched_jobs(session, name="default", limit=10):
    return [job.id for job in queue.undispatched_jobs(session, name, silent_for_s=3, limit=limit)]


def test_undispatched_jobs_are_in_claim_order(in_transaction, make_job, put):
    urgent = make_job(runtime={"priority": 9})
    first, second, third = make_job(), make_job(), make_job()
    make_job(State.RUNNING)
    put(urgent.id, dispatched_at=None)
    put(first.id, created_at=from_now(-3), dispatched_at=None)
    put(second.id, created_at=from_now(-2), dispatched_at=from_now(-10))
    put(third.id, created_at=from_now(-1), dispatched_at=from_now(-0.5))
    assert in_transaction(undispatched_jobs) == [urgent.id, first.id, second.id]
    assert in_transaction(undispatched_jobs, limit=1) == [urgent.id]


def test_queues_with_undispatched_jobs_are_listed_once(in_transaction, make_job, put):
    for parts in ({"queue": "big"}, {"queue": "big"}, {"device": "gpu"}, {}):
        put(make_job(runtime=parts).id, dispatched_at=None)
    make_job(runtime={"queue": "heard"})
    assert sorted(in_transaction(queue.queues_to_dispatch, silent_for_s=3)) == [
        "big",
        "default",
        "gpu",
    ]
    assert len(in_transaction(undispatched_jobs, "big")) == 2


def test_a_recently_dispatched_job_is_skipped(in_transaction, make_job, put):
    job_id = make_job().id
    put(job_id, dispatched_at=None)
    in_transaction(queue.mark_dispatched, [job_id])
    assert in_transaction(undispatched_jobs) == []


def test_a_job_is_not_dispatched_before_it_is_due(in_transaction, make_job, put):
    job_id = make_job().id
    put(job_id, dispatched_at=None, not_before=from_now(5))
    assert in_transaction(undispatched_jobs) == []
    put(job_id, not_before=from_now(-0.1))
    assert in_transaction(undispatched_jobs) == [job_id]


@every_row("state", [state for state in State if state != State.QUEUED])
def test_only_a_queued_job_has_a_reason_for_waiting(make_job, why, state):
    assert why(make_job(state).id) is None


def test_the_reason_names_a_queue_that_no_worker_serves(make_job, why, register):
    register(queues=("default", "cpu"))
    assert why(make_job(runtime={"device": "gpu"}).id) == (
        "No online worker serves the queue 'gpu'; start one with 'gpu' in AMPCORE_WORKER_QUEUES."
    )


def test_the_reason_says_that_no_worker_can_store_files(in_transaction, make_job, why, register):
    job = make_job().id
    register("w")
    in_transaction(workers.heartbeat, "w", hardware={"storage_error": "the bucket is gone."})
    assert why(job) == (
        "The online workers of the queue 'default' take no job, because they could not store its "
        "files: the bucket is gone."
    )
    register("other")
    assert why(job).startswith("It is number 1")
    in_transaction(workers.heartbeat, "w", hardware={"storage_error": None})
    assert why(job).startswith("It is number 1")


def test_the_reason_says_that_no_worker_has_a_sandbox(in_transaction, make_job, put, why, register):
    job = make_job()
    put(job.id, spec={**job.spec, "model": {"kind": "bundle"}})
    sentence = (
        "The job runs custom code, and no online worker that serves the queue 'default' has a "
        "sandbox for it; `ampctl worker list --json` says why."
    )
    register()
    assert why(job.id) == sentence  # it has not reported its hardware
    in_transaction(workers.heartbeat, "w", hardware={"sandbox": {"kind": None, "missing": ["x"]}})
    assert why(job.id) == sentence
    assert why(make_job().id).startswith("It is number 2")
    in_transaction(workers.heartbeat, "w", hardware={"sandbox": {"kind": "landlock"}})
    assert why(job.id).startswith("It is number 1")


def test_the_reason_gives_the_rank_in_the_queue(in_transaction, make_job, put, why, register):
    register(slots=2)
    first, second, last = make_job(), make_job(runtime={"priority": 7}), make_job()
    make_job(runtime={"device": "cpu"})  # in another queue
    put(first.id, created_at=from_now(-9))
    put(make_job().id, not_before=from_now(9), created_at=from_now(-9))  # not due
    assert (
        why(second.id) == "It is number 1 in the queue 'default'; a worker will start it shortly."
    )
    assert why(last.id).startswith("It is number 3 in the queue 'default'")
    for _ in range(2):
        in_transaction(attempts.claim_next, "w", ["default"])
    assert why(last.id) == "It is number 1 in the queue 'default', and all 2 slots are busy."


def test_the_reason_gives_the_time_of_the_next_attempt(make_job, put, why, register):
    register()
    job_id = make_job().id
    put(job_id, not_before=from_now(30))
    assert why(job_id) == "Its last attempt failed; the next one starts in 30 s."
    put(job_id, not_before=from_now(-1))
    assert why(job_id).startswith("It is number 1")


def test_the_reason_names_a_project_at_its_running_quota(in_transaction, make_job, why, register):
    register()
    in_transaction(projects.update, "small", {"max_running": 1})
    make_job(State.RUNNING, project="small")
    assert why(make_job(project="small").id) == (
        "The project 'small' has reached its quota of 1 running job; "
        "this job starts when one of them ends."
    )


def test_a_job_whose_project_is_not_next_is_not_told_that_it_starts_shortly(
    in_transaction, make_job, why, register
):
    register(slots=3)
    make_job(project="idle")
    make_job(project="busy")
    in_transaction(attempts.claim_next, "w", ["default"])
    make_job(project="idle")
    sentences = {project: why(make_job(project=project).id) for project in ("idle", "busy")}
    [later] = [sentence for sentence in sentences.values() if " goes first: " in sentence]
    assert "shortly" not in later


def test_ranks_are_counted_up_to_a_maximum(
    *, make_job, put, why, register, monkeypatch, in_transaction
):
    monkeypatch.setattr(waiting_reason, "MAX_RANKED", 2)
    monkeypatch.setattr(waiting_reason, "_RANKS", waiting_reason._ranked_jobs())
    register(slots=1)
    first, second, third = (make_job() for _ in range(3))
    for place, job in enumerate((first, second, third)):
        put(job.id, created_at=from_now(place - 9))
    assert why(second.id) == (
        "It is number 2 in the queue 'default'; 1 free slot, and the jobs ahead of it go first."
    )
    assert why(third.id) == "More than 2 jobs are ahead of it in the queue 'default'."
    in_transaction(attempts.claim_next, "w", ["default"])
    assert why(third.id) == "It is number 2 in the queue 'default', and the only slot of its " + (
        "workers is busy."
    )


def test_explaining_many_jobs_takes_as_many_queries_as_explaining_one(
    database, make_job, in_transaction, register
):
    """Fails if each job is counted by its own query: polling clients would wait for all of them."""
    from sqlalchemy import event

    register()
    in_transaction(projects.update, "default", {"max_running": 9})
    ids = [make_job().id for _ in range(20)]
    statements = []
    event.listen(
        database.engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2])
    )
    counts = []
    for job_ids in (ids[:1], ids):
        with database.autocommit() as connection:
            rows = jobs.get_rows(connection, job_ids)
            statements.clear()
            assert waiting_reason.why_waiting(connection, rows).keys() == set(job_ids)
        counts.append(len(statements))
    assert counts[0] == counts[1]
