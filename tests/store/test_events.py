from ampcore.spec import State
from store import events


def test_events_are_read_on_from_any_place(database, make_job):
    job = make_job(State.SUCCEEDED)
    with database.read() as session:
        assert [row.seq for row in events.read(session, job.id, after=1, limit=2)] == [2, 3]
        assert events.read(session, job.id, after=4, limit=2) == []
