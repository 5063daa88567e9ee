from ampcore.spec import Reason, State
from store import attempts


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
