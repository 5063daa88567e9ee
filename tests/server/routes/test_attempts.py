import pytest

from ampspec.jobs import Reason, State
from store.clock import from_now
from store.gangs import gang_members
from store.jobs import attempts
from store.tables import GangMember


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: the store has its own tests on both databases."""
    return sqlite_url


def test_every_attempt_is_listed_with_its_outcome(api, make_job):
    job = make_job(State.RUNNING)
    with api.database.write() as session:
        attempts.mark_failed(session, job.id, 1, Reason.PROCESS_KILLED, "It was killed.")
        attempts.claim(session, job.id, "another-worker")
    first, second = api.client.get(f"/api/v1/jobs/{job.id}/attempts").json()["items"]
    assert (first["worker_id"], first["first_step"]) == ("some-worker", 0)
    assert (first["outcome"], first["reason"]) == ("failed", "process_killed")
    assert first["message"].startswith("It was killed.")
    assert first["started_at"] <= first["finished_at"]
    assert (second["attempt"], second["worker_id"]) == (2, "another-worker")
    assert second["outcome"] is second["first_step"] is second["finished_at"] is None
    assert second["waited_s"] >= 0


def test_a_job_that_no_worker_has_taken_has_no_attempts(api, make_job):
    assert api.client.get(f"/api/v1/jobs/{make_job().id}/attempts").json() == {"items": []}


def test_the_ranks_of_an_attempt_are_listed_with_worker_device_and_state(api, make_job):
    job = make_job(runtime={"workers": 2, "devices": 2})
    with api.database.write() as session:
        attempts.claim(session, job.id, "w0", ranks=4)
        for number, name in enumerate(("w0", "w1")):
            member = {"worker_id": name, "first_rank": 2 * number, "ranks": 2, "state": "running"}
            session.add(
                GangMember(job_id=job.id, attempt=1, lease_expires_at=from_now(30), **member)
            )
        session.flush()
        devices = [{"rank": 0, "device": "a CPU", "state": "running"}, {"rank": "damaged"}]
        gang_members.renew(session, job.id, 1, "w0", lease_s=30, devices=devices)
        gang_members.end(session, job.id, 1, "w1", reason=Reason.WORKER_LOST)
    [attempt] = api.client.get(f"/api/v1/jobs/{job.id}/attempts").json()["items"]
    assert attempt["ranks"] == [
        {"rank": 0, "worker_id": "w0", "device": "a CPU", "state": "running"},
        {"rank": 1, "worker_id": "w0", "device": None, "state": "starting"},
        {"rank": 2, "worker_id": "w1", "device": None, "state": "lost"},
        {"rank": 3, "worker_id": "w1", "device": None, "state": "lost"},
    ]
    assert api.client.get(f"/api/v1/jobs/{job.id}").json()["ranks"] == 4
