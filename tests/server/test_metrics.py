import time

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text, update

from ampspec.jobs import State
from server import schema
from server.metrics.monotonic_counter import MonotonicCounter
from store import workers
from store.clock import from_now
from store.files import artifacts
from store.gangs import gangs
from store.jobs import jobs
from store.tables import Allocation, Attempt, Job, ServiceCount
from tests.waiting import DEADLINE_S


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: the store has its own tests on both databases."""
    return sqlite_url


EXACT_S = 0.01
"""The resolution of the databases' clocks."""


@pytest.fixture
def scrape(api):
    """Every sample of /metrics, by name and labels."""

    def scrape(client=None):
        answer = (client or api.client).get("/metrics")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        return {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(answer.text)
            for sample in family.samples
        }

    return scrape


@pytest.fixture
def register(database):
    """A worker that has reported its measurements."""

    def register(worker_id, **usage):
        known = {"hostname": "h", "pid": 1, "slots": 2, "version": "1", "queues": ["default"]}
        with database.write() as session:
            workers.register(session, worker_id, **known)
            workers.heartbeat(session, worker_id, usage=usage)

    return register


def test_only_a_valid_token_may_read_the_metrics(api, scrape, client_with_role):
    assert scrape(client_with_role("viewer", "other"))
    assert api.anonymous.get("/metrics").status_code == 401


def test_the_build_info_is_a_metric(scrape):
    import ampcore

    labels = (("schema", schema.HEAD), ("version", ampcore.__version__))
    assert scrape()["ampcore_build_info", *labels] == 1


def test_requests_are_counted_by_route_template(api, scrape, make_job):
    for _ in range(2):
        api.client.get(f"/api/v1/jobs/{make_job().id}")
    api.client.get("/api/v1/jobs/ffffffffffff")
    api.client.get("/made/up/by/a/stranger")
    api.anonymous.get("/api/v1/jobs")
    samples = scrape()

    def count(route, status, method="GET"):
        labels = (("method", method), ("route", route), ("status", status))
        return samples.get(("ampcore_http_request_duration_seconds_count", *labels))

    assert count("/api/v1/jobs/{job_id}", "200") == 2
    assert count("/api/v1/jobs/{job_id}", "404") == 1
    assert count("other", "404") == 1
    assert count("other", "401") == 1
    assert not [key for key in samples if "stranger" in str(key)]


def test_jobs_are_counted_by_state_and_queue(scrape, make_job):
    make_job()
    make_job(runtime={"device": "gpu"})
    make_job(State.RUNNING)
    samples = scrape()
    assert samples["ampcore_jobs", ("queue", "default"), ("state", "queued")] == 1
    assert samples["ampcore_jobs", ("queue", "gpu"), ("state", "queued")] == 1
    assert samples["ampcore_jobs", ("queue", "default"), ("state", "running")] == 1


def test_the_oldest_wait_ignores_jobs_that_are_not_due(database, scrape, make_job):
    job, later = make_job(), make_job()
    with database.write() as session:
        session.execute(update(Job).where(Job.id == job.id).values(queued_at=from_now(-90)))
        waiting = {"queued_at": from_now(-900), "not_before": from_now(60)}
        session.execute(update(Job).where(Job.id == later.id).values(**waiting))
    waited_s = scrape()["ampcore_queue_oldest_seconds", ("queue", "default")]
    assert 90 - EXACT_S < waited_s < 90 + DEADLINE_S


def test_attempt_counters_do_not_decrease_when_a_job_is_deleted(database, scrape, make_job):
    ended = make_job(State.SUCCEEDED)
    make_job(State.RUNNING)
    with database.write() as session:
        session.execute(update(Attempt).where(Attempt.job_id == ended.id).values(waited_s=20.0))

    def check():
        samples = scrape()
        assert samples["ampcore_attempts_total", ("outcome", "succeeded")] == 1
        assert samples["ampcore_queue_wait_seconds_count",] == 2
        assert samples["ampcore_queue_wait_seconds_bucket", ("le", "15.0")] == 1
        assert samples["ampcore_queue_wait_seconds_bucket", ("le", "60.0")] == 2
        assert samples["ampcore_queue_wait_seconds_bucket", ("le", "+Inf")] == 2
        assert samples["ampcore_queue_wait_seconds_sum",] == pytest.approx(20, abs=5)

    check()
    with database.write() as session:
        assert jobs.delete_job(session, ended.id)
    check()


def test_counts_that_version_0_5_stored_are_those_of_present_outcomes(database, scrape):
    stored = {"counts": [["handed_back", 3], ["requeued", 2], ["lost", 1]], "took_s": 60.0}
    with database.write() as session:
        session.add(ServiceCount(name="attempts", counted_at=from_now(0), **stored))
    samples = scrape()
    assert samples["ampcore_attempts_total", ("outcome", "requeued")] == 5
    assert samples["ampcore_attempts_total", ("outcome", "lost")] == 1


def test_gangs_have_metrics_of_waiting_jobs_and_reserved_slots(api, scrape, register, make_job):
    for name in ("w0", "w1"):
        register(name)
        with api.database.write() as session:
            workers.heartbeat(session, name, hardware={"gang_host": "10.0.0.1"})
    make_job(runtime={"workers": 2, "devices": 2})
    with api.database.write() as session:
        gangs.place(session)
    samples = scrape()
    assert samples["ampcore_gangs_waiting",] == 1
    assert samples["ampcore_worker_slots_reserved", ("worker", "w1")] == 2


def test_allocations_that_have_not_ended_are_counted_by_engine_and_state(
    database, scrape, make_job
):
    job = make_job()
    states = ("PENDING", "PENDING", "RUNNING", "FAILED")
    with database.write() as session:
        for number, state in enumerate(states, start=1):
            fields = {"job_id": job.id, "attempt": 1, "number": number, "queue": "batch"}
            ended_at = from_now(0) if state == "FAILED" else None
            session.add(
                Allocation(
                    name=f"ampcore-{job.id}-1-{number}",
                    **fields,
                    engine="slurm",
                    state=state,
                    ended_at=ended_at,
                )
            )
    samples = {key: value for key, value in scrape().items() if key[0] == "ampcore_allocations"}
    assert samples == {
        ("ampcore_allocations", ("engine", "slurm"), ("state", "PENDING")): 2,
        ("ampcore_allocations", ("engine", "slurm"), ("state", "RUNNING")): 1,
    }


def test_workers_have_metrics_of_slots_steps_lag_and_gpus(api, scrape, register, make_job):
    gpu = {"index": 0, "utilization": 0.75, "memory_used_bytes": 2, "memory_total_bytes": 8}
    register("some-worker", steps_total=100, lag_s=0.25, gpus=[gpu])
    register("slow", steps_total=7, lag_s=1.5)
    register("new")
    register("gone", steps_total=1, lag_s=99.0)
    with api.database.write() as session:
        fields = {"hostname": "h", "pid": 1, "slots": 8, "version": "1", "queues": ["gpu"]}
        workers.register(session, "of-one-job", job_id="ab12", **fields)
        workers.stopped(session, "gone")
    make_job(State.RUNNING)
    samples = scrape()
    assert samples["ampcore_workers", ("state", "online")] == 3
    assert samples["ampcore_workers", ("state", "stopped")] == 1
    assert samples["ampcore_workers", ("state", "lost")] == 0
    assert samples["ampcore_worker_slots", ("worker", "some-worker")] == 2
    assert samples["ampcore_worker_slots_busy", ("worker", "some-worker")] == 1
    assert samples["ampcore_worker_slots_busy", ("worker", "slow")] == 0
    assert samples["ampcore_worker_slots_reserved", ("worker", "some-worker")] == 0
    assert ("ampcore_worker_slots", ("worker", "of-one-job")) not in samples
    assert samples["ampcore_steps_ingested_total",] == 108
    assert samples["ampcore_ingest_lag_seconds",] == 1.5
    which = (("gpu", "0"), ("worker", "some-worker"))
    assert samples["ampcore_gpu_utilization_ratio", *which] == 0.75
    assert samples["ampcore_gpu_memory_used_bytes", *which] == 2
    assert samples["ampcore_gpu_memory_bytes", *which] == 8
    with api.database.write() as session:
        session.execute(text("DELETE FROM workers"))
    assert scrape()["ampcore_steps_ingested_total",] == 108


def test_artifact_sizes_and_the_silence_of_jobs_are_metrics(database, scrape, make_job):
    job = make_job(State.RUNNING)
    with database.write() as session:
        for number in (1, 2):
            file = artifacts.StoredArtifact(
                f"c/{number}", artifacts.CHECKPOINT, 1, 3 * 2**31, "0" * 64
            )
            artifacts.add(session, job.id, 1, file)
        session.execute(update(Job).values(updated_at=from_now(-40)))
    samples = scrape()
    assert samples["ampcore_artifacts_bytes", ("kind", "checkpoint")] == 6 * 2**31
    silence_s = samples["ampcore_running_job_silence_seconds",]
    assert 40 - EXACT_S < silence_s < 40 + DEADLINE_S


def test_the_reconciler_has_metrics(api, scrape, make_job):
    assert scrape()["ampcore_leases_lost_total",] == 0
    job = make_job(State.RUNNING)
    with api.database.write() as session:
        session.execute(update(Job).where(Job.id == job.id).values(lease_expires_at=from_now(-1)))
    reconciler = api.app.state.reconciler
    reconciler.expire()
    reconciler.last_success_at = 1234.5
    samples = scrape()
    assert samples["ampcore_leases_lost_total",] == 1
    assert samples["ampcore_attempts_total", ("outcome", "lost")] == 1
    assert samples["ampcore_reconciler_last_success_timestamp_seconds",] == 1234.5


def test_without_the_database_process_metrics_remain(api, scrape):
    assert scrape()["ampcore_database_up",] == 1
    with api.database.write() as session:
        session.execute(text("ALTER TABLE tokens RENAME TO tokens_away"))
        session.execute(text("ALTER TABLE jobs RENAME TO jobs_away"))
    try:
        api.app.state.services.authenticator._clock = lambda: time.monotonic() + 60
        samples = scrape()
    finally:
        with api.database.write() as session:
            session.execute(text("ALTER TABLE tokens_away RENAME TO tokens"))
            session.execute(text("ALTER TABLE jobs_away RENAME TO jobs"))
    assert samples["ampcore_database_up",] == 0
    assert samples["process_resident_memory_bytes",] > 0
    assert ("ampcore_steps_ingested_total",) not in samples


def test_metric_names_follow_the_prometheus_conventions(api, make_job, register):
    """Base units, `_total` on counters, help and type."""
    make_job(State.SUCCEEDED)
    register("w", gpus=[])
    for family in text_string_to_metric_families(api.client.get("/metrics").text):
        if not family.name.startswith("ampcore_"):
            continue
        assert family.type in {"counter", "gauge", "histogram"}
        assert family.documentation
        assert not family.name.endswith(("_ms", "_s", "_mb", "_total", "_percent"))
        if family.type == "counter":
            assert all(s.name.endswith("_total") for s in family.samples)


def test_a_monotonic_counter_never_decreases():
    counter = MonotonicCounter()
    assert [counter.total("a", n) for n in (5, 7, 3, 4, 4)] == [5, 7, 7, 8, 8]
    counter.total("b", 2)
    assert counter.sum() == 10
