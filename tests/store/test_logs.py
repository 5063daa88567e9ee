from ampcore.spec import State
from store import attempts, ingest, logs
from store.ingest import LogChunk


def test_what_was_printed_is_read_on_from_any_place_and_by_attempt(database, do, make_job):
    job = make_job(State.RUNNING)
    pieces = [LogChunk("stdout", f"line {number}\n") for number in range(3)]
    do(ingest.append, job.id, 1, pieces, told=0)
    do(attempts.hand_back, job.id, 1)
    do(attempts.claim, job.id, "other")
    do(ingest.append, job.id, 2, [LogChunk("stderr", "again\n")], told=0)

    def read(**asked):
        with database.read() as session:
            rows = logs.read(session, job.id, **{"after": 0, "limit": 99, **asked})
            return [row.text for row in rows]

    assert read() == ["line 0\n", "line 1\n", "line 2\n", "again\n"]
    assert read(limit=1) == ["line 0\n"]
    assert read(after=4, limit=2) == ["line 1\n", "line 2\n"]
    assert read(attempt=2) == ["again\n"]
