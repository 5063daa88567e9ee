from ampcore.series import Event, EventType
from ampcore.spec import State
from store import events, jobs


def test_an_event_takes_the_next_number_and_extends_the_lease(database, make_job):
    job = make_job(State.RUNNING)
    event = Event(EventType.OVERFLOW, step=7, data={"before": 65536.0, "norm": float("inf")})
    with database.write() as session:
        standing = events.append(session, job.id, 1, event)
    with database.read() as session:
        [row] = events.read(session, job.id, after=standing.seq - 1, limit=10)
        assert (row.seq, row.type, row.step, row.attempt) == (standing.seq, "overflow", 7, 1)
        assert row.data == {"before": 65536.0, "norm": "Infinity"}
        assert jobs.get(session, job.id).seq == standing.seq


def test_an_attempt_that_is_over_writes_no_events(database, make_job):
    job = make_job(State.RUNNING)
    with database.write() as session:
        assert events.append(session, job.id, 2, Event(EventType.WARNING)) is None
    with database.read() as session:
        assert len(events.read(session, job.id, after=0, limit=10)) == 3


def test_events_are_read_on_from_any_place(database, make_job):
    job = make_job(State.SUCCEEDED)
    with database.read() as session:
        assert [row.seq for row in events.read(session, job.id, after=1, limit=2)] == [2, 3]
        assert events.read(session, job.id, after=4, limit=2) == []
