import threading
from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import func, select

from ampspec.api.study_requests import DEFAULT_PRIORITY, STUDY_PRIORITY
from ampspec.jobs import Reason, State
from ampspec.studies.capacity.batch_search import size_of_key
from ampspec.telemetry import Event, EventType
from ampspec.telemetry.ranges.range_samples import RangeSample
from server.studies.progress import STORAGE_FULL, WAITING
from store import studies, workers
from store.access import projects
from store.files import datasets
from store.files.datasets import Description, StoredDataset
from store.tables import Job
from tests.databases import ON_SQLITE
from tests.range_layers import HOT
from tests.range_layers import layer as range_layer
from tests.server.studies.conftest import SPEC, STUDIES
from tests.waiting import join

FLOAT32 = [0.95, 0.954, 0.949]
"""The accuracies of float32 with three seeds."""


def run_precision(driver, others, speed=1.5, **options):
    """A study whose jobs end with these accuracies; returns the study after its last round."""
    study = driver.create(options={"seeds": len(others), **options})
    driver.progress.advance(study)
    for seed in range(len(others)):
        jobs = driver.jobs(study)
        ours, theirs = jobs[f"mixed_bfloat16/seed-{seed}"], jobs[f"float32/seed-{seed}"]
        driver.succeed(theirs, val_accuracy=FLOAT32[seed], median_examples_per_s=1000.0)
        driver.succeed(ours, val_accuracy=others[seed], median_examples_per_s=1000.0 * speed)
    driver.progress.advance(study)
    return driver.get(study)


@ON_SQLITE
def test_a_study_queues_a_job_for_each_seed_and_policy(driver):
    study = driver.create(name="which?")
    planned = driver.get(study)
    assert (planned["state"], planned["jobs_planned"], planned["progress"]) == ("running", 6, 0.0)
    assert {job["state"] for job in planned["jobs"]} == {"planned"}
    driver.progress.advance(study)
    jobs = driver.jobs(study)
    assert list(jobs)[:2] == ["float32/seed-0", "mixed_bfloat16/seed-0"]
    assert sorted(driver.api.dispatcher.sent) == sorted(jobs.values())
    job = driver.api.client.get(f"/api/v1/jobs/{jobs['mixed_bfloat16/seed-2']}").json()
    assert job["labels"] == {"study": study, "study_job": "mixed_bfloat16/seed-2"}
    assert job["spec"]["train"]["seed"] == 2
    assert job["spec"]["precision"]["policy"] == "mixed_bfloat16"
    assert job["created_by"] == "test"


@ON_SQLITE
def test_an_equal_and_faster_policy_is_recommended(driver):
    study = run_precision(driver, [0.9502, 0.9539, 0.9491])
    assert (study["state"], study["progress"]) == ("succeeded", 1.0)
    answer = study["answer"]
    float32, other = answer["policies"]
    assert (float32["verdict"], float32["speedup"]) == ("equal", 1.0)
    assert (other["verdict"], round(other["speedup"], 3)) == ("equal", 1.5)
    assert answer["recommended"] == "mixed_bfloat16"
    assert other["write"] == {"precision": {"policy": "mixed_bfloat16"}}
    assert set(other["jobs"]) <= set(driver.jobs(study["id"]).values())
    assert other["memory"] > 0
    report = driver.api.client.get(f"{STUDIES}/{study['id']}/report")
    assert report.headers["content-type"].startswith("text/markdown")
    assert all(job in report.text for job in driver.jobs(study["id"]).values())


@ON_SQLITE
def test_the_validation_examples_of_jobs_are_compared(driver, tmp_path):
    """Each pair differs in two of 3,000 examples, so the interval is that of examples."""
    study = driver.create(options={"seeds": 2})
    driver.progress.advance(study)
    for key, job in driver.jobs(study).items():
        outcomes = np.ones(3000)
        first = len(key) + 2 * int(key[-1])
        outcomes[[first, 1500 + first]] = 0.0
        driver.store_examples(job, outcomes, tmp_path)
        driver.succeed(job, val_accuracy=float(outcomes.mean()))
    driver.progress.advance(study)
    answer = driver.get(study)["answer"]
    assert answer["rows"]["count"] == 3000
    assert answer["policies"][1]["verdict"] == "equal"
    assert answer["policies"][1]["changed_examples"] == pytest.approx(4 / 3000)
    listed = driver.entries(study)[0].result["examples"]
    assert len(listed["values"]["val_accuracy"]) < 500


@ON_SQLITE
def test_damaged_files_of_examples_leave_the_means_to_compare(driver, tmp_path):
    study = driver.create(options={"seeds": 2})
    driver.progress.advance(study)
    for job in driver.jobs(study).values():
        driver.store_examples(job, None, tmp_path)
        driver.succeed(job, val_accuracy=0.95)
    driver.progress.advance(study)
    answer = driver.get(study)["answer"]
    assert answer["rows"] is None
    assert "Only the means of the seeds" in answer["policies"][1]["explanation"]


@ON_SQLITE
def test_a_policy_that_is_1_point_worse_is_not_recommended(driver):
    answer = run_precision(driver, [0.9401, 0.9442, 0.9388])["answer"]
    assert answer["policies"][1]["verdict"] == "worse"
    assert answer["recommended"] == "float32"


@ON_SQLITE
def test_too_few_seeds_say_how_many_more_are_needed(driver):
    answer = run_precision(driver, [0.956, 0.949])["answer"]
    other = answer["policies"][1]
    assert other["verdict"] == "cannot tell"
    assert other["needs_more_seeds"] > 0
    assert f"needs {other['needs_more_seeds']:,} more seed" in other["explanation"]
    assert answer["recommended"] == "float32"


@ON_SQLITE
def test_a_policy_that_diverges_has_failed_and_the_study_succeeds(driver):
    study = driver.create(options={"seeds": 2})
    driver.progress.advance(study)
    for key, job in driver.jobs(study).items():
        if key == "mixed_bfloat16/seed-1":
            driver.fail(job, Reason.NON_FINITE_LOSS)
        else:
            driver.succeed(job, val_accuracy=0.9, median_examples_per_s=10.0)
    driver.progress.advance(study)
    found = driver.get(study)
    assert found["state"] == "succeeded"
    other = found["answer"]["policies"][1]
    assert other["verdict"] == "failed"
    assert "non_finite_loss" in other["explanation"]


@ON_SQLITE
def test_a_study_without_results_of_float32_fails_and_says_why(driver):
    study = driver.create(options={"seeds": 2})
    driver.progress.advance(study)
    for job in driver.jobs(study).values():
        driver.fail(job, Reason.INVALID_DATA)
    driver.progress.advance(study)
    found = driver.get(study)
    assert (found["state"], found["answer"]) == ("failed", None)
    assert "invalid_data" in found["message"]
    report = driver.api.client.get(f"{STUDIES}/{study}/report")
    assert (report.status_code, report.json()["code"]) == (409, "conflict")


def test_rounds_of_several_servers_at_the_same_time_create_each_job_once(driver):
    study = driver.create(options={"seeds": 5})
    start = threading.Barrier(4)

    def advance():
        start.wait()
        driver.progress.advance(study)

    threads = [threading.Thread(target=advance) for _ in range(4)]
    for thread in threads:
        thread.start()
    join(*threads)
    driver.progress.advance(study)
    with driver.api.database.read() as session:
        assert session.scalar(select(func.count()).select_from(Job)) == 10
    assert len(set(driver.jobs(study).values())) == 10


def test_a_round_that_dies_before_its_commit_leaves_no_job_behind(driver, monkeypatch):
    study = driver.create()
    with monkeypatch.context() as patch:
        patch.setattr("store.studies.set_job", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            driver.progress.advance(study)
    assert driver.api.client.get("/api/v1/jobs").json()["items"] == []
    driver.progress.advance(study)
    assert len(driver.api.client.get("/api/v1/jobs").json()["items"]) == 6


@ON_SQLITE
def test_a_full_queue_delays_the_other_jobs(driver):
    driver.api.client.put("/api/v1/projects/default", json={"max_queued": 2})
    study = driver.create()
    driver.progress.advance(study)
    driver.progress.advance(study)
    queued = [job for job in driver.jobs(study).values() if job]
    assert len(queued) == 2
    driver.succeed(queued[0], val_accuracy=0.9)
    driver.progress.advance(study)
    assert len([job for job in driver.jobs(study).values() if job]) == 3


@ON_SQLITE
def test_a_study_says_that_the_storage_of_its_project_is_full(driver):
    quota = "/api/v1/projects/default"
    driver.api.client.put(quota, json={"max_artifact_bytes": 0})
    study = driver.create()
    driver.progress.advance(study)
    assert (driver.get(study)["message"], set(driver.jobs(study).values())) == (
        STORAGE_FULL,
        {None},
    )
    driver.api.client.put(quota, json={"max_artifact_bytes": None})
    driver.progress.advance(study)
    assert driver.get(study)["message"] is None
    assert all(driver.jobs(study).values())


@ON_SQLITE
def test_cancelling_a_study_cancels_its_jobs_and_ends_it_after_them(driver):
    study = driver.create()
    driver.progress.advance(study)
    first, *_ = jobs = list(driver.jobs(study).values())
    with driver.api.database.write() as session:
        from store.jobs import attempts

        attempts.claim(session, first, "w")
        attempts.mark_running(session, first, 1, total_steps=10, first_step=0)
    response = driver.api.client.post(f"{STUDIES}/{study}/cancel")
    assert (response.status_code, response.json()["state"]) == (202, "stopping")
    states = [driver.api.client.get(f"/api/v1/jobs/{job}").json()["state"] for job in jobs]
    assert states == [State.STOPPING] + [State.CANCELLED] * 5
    driver.progress.advance(study)
    assert driver.get(study)["state"] == "stopping"
    with driver.api.database.write() as session:
        attempts.mark_cancelled(session, first, 1)
    driver.progress.advance(study)
    found = driver.get(study)
    assert (found["state"], found["message"]) == ("cancelled", "Cancelled on request.")
    assert found["finished_at"] is not None
    again = driver.api.client.post(f"{STUDIES}/{study}/cancel")
    assert (again.status_code, again.json()["code"]) == (409, "conflict")


@ON_SQLITE
def test_the_plan_of_a_study_that_ends_is_forgotten(driver):
    """Fails if a server keeps the plans of all studies that it has ever advanced."""
    succeeded = run_precision(driver, [0.9502, 0.9539])
    assert succeeded["state"] == "succeeded"
    assert driver.progress._plans == {}
    stopping = driver.create()
    driver.progress.advance(stopping)
    assert list(driver.progress._plans) == [stopping]
    driver.api.client.post(f"{STUDIES}/{stopping}/cancel")
    driver.progress.advance(stopping)
    assert driver.progress._plans == {}


@ON_SQLITE
def test_a_cancelled_study_queues_nothing(driver):
    study = driver.create()
    driver.api.client.post(f"{STUDIES}/{study}/cancel")
    driver.progress.advance(study)
    assert driver.get(study)["state"] == "cancelled"
    assert driver.api.client.get("/api/v1/jobs").json()["items"] == []


@ON_SQLITE
def test_a_job_that_was_deleted_counts_as_cancelled(driver):
    study = driver.create(options={"seeds": 2})
    driver.progress.advance(study)
    jobs = driver.jobs(study)
    gone = jobs.pop("mixed_bfloat16/seed-1")
    driver.api.client.post(f"/api/v1/jobs/{gone}/cancel")
    assert driver.api.client.delete(f"/api/v1/jobs/{gone}").status_code == 204
    for job in jobs.values():
        driver.succeed(job, val_accuracy=0.9)
    driver.progress.advance(study)
    found = driver.get(study)
    assert found["state"] == "succeeded"
    assert found["answer"]["policies"][1]["verdict"] == "failed"


@ON_SQLITE
def test_a_study_whose_dataset_was_deleted_fails(driver):
    study = driver.create()
    with driver.api.database.write() as session:
        from store.tables import Study

        spec = session.get(Study, study).spec
        session.get(Study, study).spec = {**spec, "data": {"kind": "npz", "dataset": "gone@1"}}
    driver.progress.advance(study)
    driver.progress.advance(study)
    found = driver.get(study)
    assert found["state"] == "failed"
    assert "gone" in found["message"]


@pytest.fixture
def own_data(driver):
    """A spec on uploaded data: only a job tells its shape, its size, and its parts."""
    file = StoredDataset("default/a", "own.npz", 10, "a" * 64)
    with driver.api.database.write() as session:
        projects.ensure(session, "default")
        datasets.lock_project(session, "default")
        datasets.add_version(session, "default", "own", file, Description(), created_by=None)
    return {**SPEC, "data": {"kind": "npz", "dataset": "own", "batch_size": 64}}


def run_events(batch):
    """What a job with this batch says of 300 examples, and of its memory."""
    steps, dropped = divmod(300, batch)
    memory = {"activations": 100 * batch, "total": 1000 + 100 * batch}
    figures = {"policy": "float32", "memory": {"float32": memory}}
    return (
        Event(EventType.STARTED, None, {"steps_per_epoch": steps, "dropped_examples": dropped}),
        Event(EventType.PREFLIGHT, None, {"code": "figures", "data": figures}),
    )


RUN = run_events(64)


@ON_SQLITE
def test_a_study_without_validation_examples_ends_with_its_first_job(driver, own_data):
    study = driver.create(spec=own_data)
    driver.progress.advance(study)
    jobs = driver.jobs(study)
    driver.succeed(jobs.pop("float32/seed-0"), loss=0.5)
    driver.progress.advance(study)
    driver.progress.advance(study)
    found = driver.get(study)
    assert found["state"] == "failed"
    assert "set data.validation_split" in found["message"]
    cancelled = {
        driver.api.client.get(f"/api/v1/jobs/{one}").json()["state"] for one in jobs.values()
    }
    assert cancelled == {"cancelled"}


@ON_SQLITE
def test_a_metric_that_no_job_reports_ends_a_study_with_its_first_job(driver):
    study = driver.create(options={"metric": "val_gain"})
    driver.progress.advance(study)
    driver.succeed(driver.jobs(study)["float32/seed-0"], val_accuracy=0.5)
    driver.progress.advance(study)
    assert "report no finite val_gain; they report: val_accuracy" in driver.get(study)["message"]


@ON_SQLITE
def test_jobs_tell_the_memory_of_a_model_on_own_data(driver, own_data):
    driver.report_cpu(memory_bytes=2**20)
    study = driver.create(spec=own_data, options={"seeds": 2})
    driver.progress.advance(study)
    for job in driver.jobs(study).values():
        driver.succeed(job, *RUN, val_accuracy=0.9)
    driver.progress.advance(study)
    float32, _ = driver.get(study)["answer"]["policies"]
    assert float32["memory"] == 7400
    # There is memory for 9,424 examples, but the data has 300.
    assert float32["largest_batch"] == 296


@ON_SQLITE
def test_the_first_job_tells_a_study_of_capacity_how_many_examples_there_are(driver, own_data):
    driver.report_cpu(memory_bytes=2**30)
    study = driver.create("capacity", spec=own_data, options={"policies": ["float32"]})
    tried = {}
    while driver.get(study)["state"] == "running":
        driver.progress.advance(study)
        for key, job in driver.jobs(study).items():
            if job and key not in tried:
                tried[key] = job
                events = run_events(size_of_key(key))
                driver.succeed(job, *events, median_examples_per_s=1.0)
    [policy] = driver.get(study)["answer"]["policies"]
    assert (policy["largest_batch"], policy["limited_by"]) == (296, "data")
    # The half 144 is close to a batch that was tried.
    batches = (8, 32, 128, 296, 72)
    assert list(tried) == [f"float32/batch-{batch}" for batch in batches]


@ON_SQLITE
def test_an_estimate_knows_own_data_from_an_earlier_job(driver, own_data):
    body = {"kind": "precision", "spec": own_data, "options": {"policies": ["mixed_bfloat16"]}}
    estimate = f"{STUDIES}/estimate"
    assert driver.api.client.post(estimate, json=body).json()["steps"] is None
    job = driver.api.client.post("/api/v1/jobs", json=own_data).json()["id"]
    driver.succeed(job, median_examples_per_s=64.0)
    found = driver.api.client.post(estimate, json=body).json()
    # One step of 64 examples in an epoch takes a second; there are six jobs of ten epochs.
    assert (found["steps"], found["train_s"]) == (60, 60.0)


@ON_SQLITE
@pytest.mark.parametrize(
    ("kind", "options"),
    [("precision", {}), ("bisect", {}), ("search", {"space": {"train.seed": {"choice": [1, 2]}}})],
)
def test_a_study_of_a_metric_needs_validation_examples(driver, kind, options):
    spec = {**SPEC, "data": {"kind": "digits", "validation_split": 0}}
    body = {"kind": kind, "spec": spec, "options": options}
    [problem] = driver.api.client.post(STUDIES, json=body).json()["errors"]
    assert problem["pointer"] == "/spec/data/validation_split"


@ON_SQLITE
def test_capacity_waits_until_a_worker_has_reported_its_devices(driver):
    study = driver.create("capacity")
    driver.progress.advance(study)
    assert driver.get(study)["message"] == WAITING
    assert driver.api.client.get("/api/v1/jobs").json()["items"] == []
    driver.report_cpu(memory_bytes=2**30)
    driver.progress.advance(study)
    found = driver.get(study)
    assert found["message"] is None
    assert driver.api.dispatcher.sent == [found["jobs"][0]["job"]]


@ON_SQLITE
def test_capacity_searches_until_the_next_batch_dies_of_memory(driver):
    driver.report_cpu(memory_bytes=2**30)
    study = driver.create(
        "capacity", options={"policies": ["mixed_bfloat16"], "max_batch": 1024, "resolution": 0}
    )
    tried = {}
    while driver.get(study)["state"] == "running":
        driver.progress.advance(study)
        for key, job in driver.jobs(study).items():
            batch = size_of_key(key)
            if job and key not in tried:
                tried[key] = job
                if batch <= 200:
                    # The throughput grows up to a batch of 100.
                    speed = float(min(batch, 100))
                    driver.succeed(job, median_examples_per_s=speed, peak_memory_bytes=batch)
                else:
                    driver.fail(job, Reason.OUT_OF_MEMORY)
    found = driver.get(study)
    assert found["state"] == "succeeded"
    [policy] = found["answer"]["policies"]
    assert (policy["largest_batch"], policy["smallest_failed"]) == (200, 208)
    assert policy["limited_by"] == "memory"
    assert policy["critical_batch"] == 96
    assert all(size_of_key(key) % 8 == 0 for key in tried)
    assert len(tried) < 18
    later = driver.create(options={"seeds": 2})
    answer_source = driver.api.database
    with answer_source.read() as session:
        from store.tables import Study

        assert session.get(Study, later).facts["measured_batches"] == {"mixed_bfloat16": 200}


@ON_SQLITE
def test_a_bisecting_study_tries_the_layers_first_that_its_range_samples_name(driver):
    spec = {**SPEC, "model": {"kind": "mlp", "hidden": [8] * 5}}
    study_id = driver.create("bisect", spec=spec, options={"policy": "mixed_float16"})
    driver.progress.advance(study_id)
    jobs = driver.jobs(study_id)
    policy_alone = jobs.pop("float32-in/none")
    for job_id in jobs.values():
        driver.succeed(job_id, val_accuracy=0.9)
    good = [range_layer(name, [0.5], [0.1]) for name in ("dense_1", "dense_4")]
    layers = [good[0], replace(HOT, layer="dense_3"), good[1]]
    sample = RangeSample(0, {"model": 1024.0}, layers)
    driver.fail(policy_alone, Reason.SKIP_BUDGET_EXCEEDED, sample)
    driver.progress.advance(study_id)
    [*_, job] = driver.get(study_id)["jobs"]
    patterns = [one["layers"] for one in job["changes"]["precision"]["overrides"]]
    # dense_4 takes the outputs that overflow.
    assert patterns == ["^dense_3(/|$)", "^dense_4(/|$)"]
    [result] = [one.result for one in driver.entries(study_id) if one.key == "float32-in/none"]
    assert [one["layer"] for one in result["losses"]] == ["dense_3", "dense_4", "dense_1"]


@ON_SQLITE
def test_a_grid_that_is_planned_in_parts_has_every_combination_once(driver):
    """PostgreSQL sorts the keys of the stored space in another way than the request."""
    space = {"optimizer.learning_rate": {"choice": [0.1, 0.01]}, "train.seed": {"choice": [1, 2]}}
    options = {"space": space, "method": "grid", "parallel": 2, "asha": {"min_steps": 2}}
    body = {"kind": "search", "spec": {**SPEC, "train": {"steps": 6}}, "options": options}
    study = driver.api.client.post(STUDIES, json=body).json()["id"]
    done = set()
    while driver.get(study)["state"] == "running":
        driver.progress.advance(study)
        for job in set(filter(None, driver.jobs(study).values())) - done:
            done.add(job)
            driver.succeed(job, val_accuracy=0.9)
    tried = [tuple(run["values"].values()) for run in driver.get(study)["answer"]["runs"]]
    assert sorted(map(sorted, tried)) == [[0.01, 1], [0.01, 2], [0.1, 1], [0.1, 2]]


@ON_SQLITE
@pytest.mark.parametrize("section", ["isolation", "sandbox"])
def test_a_study_knows_the_least_memory_that_a_worker_allows_its_jobs(driver, section):
    with driver.api.database.write() as session:
        for number, limit in enumerate((3 * 2**30, 2 * 2**30, None)):
            workers.register(
                session, f"w{number}", hostname="h", pid=1, slots=1, version="1", queues=["default"]
            )
            hardware = {"devices": [{"kind": "cpu"}], section: {"memory_bytes": limit}}
            workers.heartbeat(session, f"w{number}", hardware=hardware)
    with driver.api.database.read() as session:
        limits = workers.online_memory_limits(session, in_sandbox=section == "sandbox")
        others = workers.online_memory_limits(session, in_sandbox=section != "sandbox")
    assert (min(limits), len(limits), others) == (2 * 2**30, 2, [])
    if section == "isolation":
        study = driver.create("capacity", options={"policies": ["float32"]})
        with driver.api.database.read() as session:
            facts = studies.get(session, study).facts
        assert facts["memory_limit_bytes"] == 2 * 2**30


@ON_SQLITE
@pytest.mark.parametrize(
    ("request_priority", "runtime", "expected"),
    [
        (None, {}, STUDY_PRIORITY),
        (None, {"priority": 5}, STUDY_PRIORITY),  # the default, as every normalised spec has it
        (None, {"priority": 8}, 8),
        (7, {"priority": 8}, 7),
        (5, {}, 5),
    ],
)
def test_jobs_of_a_study_run_after_submitted_jobs_unless_asked(
    driver, request_priority, runtime, expected
):
    spec = {**SPEC, "runtime": runtime}
    more = {} if request_priority is None else {"priority": request_priority}
    study = driver.create(spec=spec, **more)
    driver.progress.advance(study)
    job = next(iter(driver.jobs(study).values()))
    assert driver.api.client.get(f"/api/v1/jobs/{job}").json()["priority"] == expected
    assert DEFAULT_PRIORITY > STUDY_PRIORITY


@ON_SQLITE
def test_the_jobs_of_a_study_are_one_row_of_the_list(driver):
    study = driver.create(name="which policy")
    driver.progress.advance(study)
    jobs = driver.jobs(study)
    driver.succeed(next(iter(jobs.values())))
    [row] = driver.api.client.get("/api/v1/jobs", params={"fold_studies": True}).json()["items"]
    assert row["study"] == {
        "id": study,
        "name": "which policy",
        "kind": "precision",
        "state": "running",
        "jobs": len(jobs),
        "states": {"queued": len(jobs) - 1, "succeeded": 1},
        "jobs_planned": len(jobs),
        "jobs_ended": 0,  # as of the last round of the study
        "summary": None,
    }
    driver.progress.advance(study)
    [row] = driver.api.client.get("/api/v1/jobs", params={"fold_studies": True}).json()["items"]
    assert row["study"]["jobs_ended"] == 1
    each = driver.api.client.get("/api/v1/jobs", params={"study": study}).json()["items"]
    assert {job["id"] for job in each} == set(jobs.values())
    assert "study" not in each[0]
