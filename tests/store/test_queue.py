import pytest

from ampcore.spec import State
from store import attempts, jobs, projects, queue, workers
from store.clock import after


@pytest.fixture
def why(database, do):
    """Why a job waits."""

    def why(job_id):
        with database.read() as session:
            connection = session.connection()
            [job] = jobs.glance(connection, [job_id])
            return queue.why_waiting(connection, [job]).get(job_id)

    return why


@pytest.fixture
def register(do):
    """A worker says hello."""

    def register(worker_id="w", slots=2, queues=("default",)):
        known = {"hostname": "h", "pid": 1, "version": "1", "queues": queues}
        do(workers.register, worker_id, slots=slots, **known)

    return register


def test_a_job_that_was_taken_or_deleted_while_it_was_read_is_no_error(do, make_job, database, put):
    """The row and its place in the queue are two questions, and each sees what is there by then."""
    job_id = make_job().id
    put(job_id, not_before=after(60))
    with database.read() as session:
        [row] = jobs.glance(session.connection(), [job_id])
    put(job_id, not_before=None)
    with database.look() as connection:
        assert queue.why_waiting(connection, [row])[job_id]
    do(jobs.request_cancel, job_id)
    do(jobs.remove, job_id)
    with database.look() as connection:
        assert queue.why_waiting(connection, [row]) == {}


def silent(session, name="default", limit=10):
    return [job.id for job in queue.silent(session, name, quiet_s=3, limit=limit)]


def test_jobs_without_a_message_are_woken_in_the_order_in_which_they_are_taken(do, make_job, put):
    urgent = make_job(runtime={"priority": 9})
    first, second, third = make_job(), make_job(), make_job()
    make_job(State.RUNNING)
    put(urgent.id, woken_at=None)
    put(first.id, created_at=after(-3), woken_at=None)
    put(second.id, created_at=after(-2), woken_at=after(-10))
    put(third.id, created_at=after(-1), woken_at=after(-0.5))
    assert do(silent) == [urgent.id, first.id, second.id]
    assert do(silent, limit=1) == [urgent.id]


def test_the_queues_with_silent_jobs_are_told_once_each(do, make_job, put):
    for parts in ({"queue": "big"}, {"queue": "big"}, {"device": "gpu"}, {}):
        put(make_job(runtime=parts).id, woken_at=None)
    make_job(runtime={"queue": "heard"})
    assert sorted(do(queue.to_wake, quiet_s=3)) == ["big", "default", "gpu"]
    assert len(do(silent, "big")) == 2


def test_a_job_that_was_just_woken_is_left_alone(do, make_job, put):
    job_id = make_job().id
    put(job_id, woken_at=None)
    do(queue.note_woken, [job_id])
    assert do(silent) == []


def test_a_job_is_not_woken_before_it_is_due(do, make_job, put):
    job_id = make_job().id
    put(job_id, woken_at=None, not_before=after(5))
    assert do(silent) == []
    put(job_id, not_before=after(-0.1))
    assert do(silent) == [job_id]


@pytest.mark.parametrize("state", [state for state in State if state != State.QUEUED], ids=str)
def test_a_job_that_is_not_queued_waits_for_nothing(make_job, why, state):
    assert why(make_job(state).id) is None


def test_a_queue_that_nobody_serves_is_named(make_job, why, register):
    register(queues=("default", "cpu"))
    assert why(make_job(runtime={"device": "gpu"}).id) == (
        "No online worker serves the queue 'gpu'; start one with 'gpu' in AMPCORE_WORKER_QUEUES."
    )


def test_the_place_in_the_queue_is_told(do, make_job, put, why, register):
    register(slots=2)
    first, second, last = make_job(), make_job(runtime={"priority": 7}), make_job()
    make_job(runtime={"device": "cpu"})  # in another queue
    put(first.id, created_at=after(-9))
    put(make_job().id, not_before=after(9), created_at=after(-9))  # not due
    assert why(second.id) == "It is number 1 in the queue 'default'; a worker takes it in a moment."
    assert why(last.id).startswith("It is number 3 in the queue 'default'")
    for _ in range(2):
        do(attempts.claim_next, "w", ["default"])
    assert why(last.id) == "It is number 1 in the queue 'default', and all 2 slots are taken."


def test_a_job_that_failed_says_when_it_is_tried_again(make_job, put, why, register):
    register()
    job_id = make_job().id
    put(job_id, not_before=after(30))
    assert why(job_id) == "Its last attempt failed; it is tried again in 30 s."
    put(job_id, not_before=after(-1))
    assert why(job_id).startswith("It is number 1")


def test_a_full_project_is_named(do, make_job, why, register):
    register()
    do(projects.update, "small", {"max_running": 1})
    make_job(State.RUNNING, project="small")
    assert why(make_job(project="small").id) == (
        "The project 'small' runs as many jobs as its quota of 1 allows; "
        "it starts when one of them ends."
    )


def test_of_a_long_queue_only_the_first_are_counted(
    *, make_job, put, why, register, monkeypatch, do
):
    monkeypatch.setattr(queue, "MOST", 2)
    monkeypatch.setattr(queue, "_RANKS", queue._numbered())
    register(slots=1)
    first, second, third = (make_job() for _ in range(3))
    for place, job in enumerate((first, second, third)):
        put(job.id, created_at=after(place - 9))
    assert why(second.id) == "It is number 2 in the queue 'default'; a worker takes it in a moment."
    assert why(third.id) == "More than 2 jobs are before it in the queue 'default'."
    do(attempts.claim_next, "w", ["default"])
    assert why(third.id) == "It is number 2 in the queue 'default', and the only slot of its " + (
        "workers is taken."
    )


def test_many_jobs_are_explained_by_as_many_questions_as_one(database, make_job, do, register):
    """Fails when each of them is counted for itself: fifty who poll then wait for fifty counts."""
    from sqlalchemy import event

    register()
    do(projects.update, "default", {"max_running": 9})
    ids = [make_job().id for _ in range(20)]
    asked = []
    event.listen(database.engine, "before_cursor_execute", lambda *told: asked.append(told[2]))
    counts = []
    for wanted in (ids[:1], ids):
        with database.look() as connection:
            rows = jobs.glance(connection, wanted)
            asked.clear()
            assert queue.why_waiting(connection, rows).keys() == set(wanted)
        counts.append(len(asked))
    assert counts[0] == counts[1]
