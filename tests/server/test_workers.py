from ampcore.spec import State
from store import workers


def test_a_worker_is_told_with_its_hardware_and_its_jobs(api, make_job):
    job = make_job(State.RUNNING)
    with api.database.write() as session:
        workers.register(session, "some-worker", hostname="h", pid=7, slots=2, version="1")
        workers.seen(session, "some-worker", {"devices": ["CPU"]})
    [worker] = api.client.get("/api/v1/workers").json()["items"]
    assert worker.pop("started_at").endswith("Z")
    assert worker.pop("last_seen_at").endswith("Z")
    assert worker == {
        "id": "some-worker",
        "hostname": "h",
        "pid": 7,
        "slots": 2,
        "state": "online",
        "version": "1",
        "hardware": {"devices": ["CPU"]},
        "jobs": [job.id],
    }


def test_without_workers_the_list_is_empty(api):
    assert api.client.get("/api/v1/workers").json() == {"items": []}
