"""Searches through the API: their checks, their jobs, and extensions at the rungs of ASHA."""

import math

import pytest

from ampspec.jobs import JobSpec, Reason
from tests.server.studies.conftest import SPEC, STUDIES
from tests.tables import every_row

RATE, BATCH = "optimizer.learning_rate", "data.batch_size"
SPACE = {RATE: {"log_uniform": [1e-4, 1.0]}, BATCH: {"choice": [32, 64]}}
ASHA = {"min_steps": 10, "reduction_factor": 3}
LONG = {**SPEC, "train": {"steps": 90}}


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: the tables and statements of studies are tested in test_progress."""
    return sqlite_url


def create(driver, spec=LONG, **options):
    body = {"kind": "search", "spec": spec, "options": {"space": SPACE, **options}}
    response = driver.api.client.post(STUDIES, json=body)
    assert response.status_code == 201, response.text
    return response.json()["id"]


def job_of(driver, job_id):
    return driver.api.client.get(f"/api/v1/jobs/{job_id}").json()


def finish(driver, job_id):
    """End a job with an accuracy that is best at a learning rate of 0.01, and grows with steps."""
    spec = JobSpec.parse(job_of(driver, job_id)["spec"])
    distance = abs(math.log10(spec.optimizer.learning_rate / 1e-2))
    accuracy = 0.9 - 0.1 * distance - 1.0 / spec.train.steps
    driver.succeed(job_id, val_accuracy=accuracy, steps=spec.train.steps)


def run(driver, study, end=finish, done=None):
    """Rounds of the server, each followed by the end of the oldest job that waits."""
    done = set() if done is None else done
    while driver.get(study)["state"] == "running":
        driver.progress.advance(study)
        waiting = [job for job in driver.jobs(study).values() if job and job not in done]
        for job in waiting[:1]:
            done.add(job)
            end(driver, job)
    return driver.get(study)


@every_row(
    ("options", "pointer", "expected", "received"),
    [
        ({}, "/options/space", None, None),
        ({"space": {}}, "/options/space", None, None),
        ({"space": {RATE: {}}}, f"/options/space/{RATE}", "exactly one of choice", None),
        ({"space": {RATE: {"uniform": [1, 0.1]}}}, f"/options/space/{RATE}", "lower bound", None),
        ({"space": {RATE: {"log_uniform": [0, 1]}}}, f"/options/space/{RATE}", "above 0", None),
        ({"space": {"optimizer.learning_rat": {"uniform": [0.1, 1]}}},
         "/options/space/optimizer.learning_rat", "one of the fields", None),
        ({"space": {RATE: {"uniform": [-1, 1]}}}, f"/options/space/{RATE}", "greater than 0",
         "-1.0"),
        ({"space": {"precision.policy": {"choice": ["float32", "float12"]}}},
         "/options/space/precision.policy", "float32", '"float12"'),
        ({"space": {"labels.a": {"choice": ["b"]}}}, "/options/space/labels.a", "the study", None),
        ({"space": {"model": {"choice": [{"kind": "mlp"}]}, "model.hidden": {"choice": [[8]]}}},
         "/options/space/model.hidden", "outside of model", None),
        ({"space": SPACE, "method": "grid"}, f"/options/space/{RATE}/points", "a number", "null"),
        ({"space": SPACE, "method": "tpo"}, "/options/method", "grid", None),
        ({"space": {BATCH: {"choice": [8]}}, "method": "grid", "runs": 3}, "/options/runs", "null",
         "3"),
        ({"space": {BATCH: {"int_uniform": [1, 500], "points": 100},
                    RATE: {"log_uniform": [0.1, 1.0], "points": 100}}, "method": "grid"},
         "/options/space", "at most 1000 combinations", "10000"),
        ({"space": SPACE, "asha": {"min_steps": 90}}, "/options/asha/min_steps",
         "less than the 90 steps", "90"),
        ({"space": SPACE, "steps": 50, "asha": {"min_steps": 60}}, "/options/asha/min_steps",
         "less than the 50 steps", "60"),
        ({"space": {"train.epochs": {"choice": [1, 2]}}, "steps": 9},
         "/options/space/train.epochs", "another path", None),
    ],
)  # fmt: skip
def test_a_mistake_names_its_field_what_was_expected_and_what_came(
    api, options, pointer, expected, received
):
    body = {"kind": "search", "spec": LONG, "options": options}
    response = api.client.post(STUDIES, json=body)
    assert response.status_code == 422, response.text
    [error] = response.json()["errors"]
    assert error["pointer"] == pointer
    assert expected is None or expected in error["expected"]
    assert received is None or error["received"] == received
    assert api.client.get(STUDIES).json()["items"] == []


@pytest.mark.parametrize(
    ("train", "pointer"),
    [
        ({"steps": 90, "early_stopping": {}}, "/spec/train/early_stopping"),
        ({"steps": 90, "checkpoint_every_s": None}, "/spec/train/checkpoint_every_s"),
    ],
)
def test_asha_names_what_it_cannot_work_with(api, train, pointer):
    options = {"space": SPACE, "asha": ASHA}
    body = {"kind": "search", "spec": {**SPEC, "train": train}, "options": options}
    [error] = api.client.post(STUDIES, json=body).json()["errors"]
    assert error["pointer"] == pointer


def test_a_field_that_only_another_value_allows_may_be_searched(api):
    space = {"optimizer.kind": {"choice": ["sgd"]}, "optimizer.momentum": {"choice": [0.5, 0.9]}}
    options = {"space": space, "method": "grid"}
    body = {"kind": "search", "spec": {**SPEC, "optimizer": {"kind": "adam"}}, "options": options}
    response = api.client.post(f"{STUDIES}/estimate", json=body)
    assert response.json().get("jobs") == 2, response.text


def test_a_search_finds_the_best_run_and_says_what_to_write(driver):
    study = create(driver, runs=12, parallel=3)
    assert driver.get(study)["jobs_planned"] == 3
    found = run(driver, study)
    assert (found["state"], found["message"], found["jobs_ended"]) == ("succeeded", None, 12)
    answer = found["answer"]
    best = answer["runs"][answer["best"] - 1]
    assert best["value"] == max(one["value"] for one in answer["runs"])
    assert answer["write"]["optimizer"] == {"learning_rate": best["values"][RATE]}
    assert answer["write"]["data"] == {"batch_size": best["values"][BATCH]}
    batch, rate = answer["parameters"]
    assert rate["importance"] > batch["importance"]
    job = job_of(driver, best["jobs"][0])
    assert job["spec"]["optimizer"]["learning_rate"] == best["values"][RATE]
    assert job["labels"] == {"study": study, "study_job": f"run-{best['number']}"}
    report = driver.api.client.get(f"{STUDIES}/{study}/report").text
    assert all(one["jobs"][0] in report for one in answer["runs"])
    assert answer["summary"] in report


def test_asha_extends_promoted_jobs_and_saves_steps(driver):
    study = create(driver, method="random", runs=9, parallel=2, asha=ASHA)
    found = run(driver, study)
    assert found["state"] == "succeeded"
    answer = found["answer"]
    best = answer["runs"][answer["best"] - 1]
    assert [one["steps"] for one in best["evaluations"]] == [10, 30, 90]
    first, second, third = (job_of(driver, job) for job in best["jobs"])
    assert (first["extends"], second["extends"], third["extends"]) == (
        None, first["id"], second["id"],
    )  # fmt: skip
    assert [one["spec"]["train"]["steps"] for one in (first, second, third)] == [10, 30, 90]
    states = [one["state"] for one in answer["runs"]]
    assert states.count("stopped") >= 5
    trained = sum(one["steps"] for one in answer["runs"])
    assert answer["steps"] == trained
    saved = sum(90 - one["steps"] for one in answer["runs"])
    assert answer["steps_saved"] == saved > 9 * 90 // 2


def test_a_promoted_run_whose_job_was_deleted_is_lost_and_the_search_goes_on(driver):
    """The first run that is promoted cannot be extended any more."""
    study = create(driver, method="random", runs=4, parallel=4, asha=ASHA)
    driver.progress.advance(study)
    jobs = driver.jobs(study)
    for job in jobs.values():
        finish(driver, job)
    driver.api.client.put("/api/v1/projects/default", json={"max_queued": 0})
    driver.progress.advance(study)
    [promoted] = [key for key in driver.jobs(study) if key not in jobs]
    gone = promoted.split("/")[0] + "/step-10"
    assert driver.api.client.delete(f"/api/v1/jobs/{jobs[gone]}").status_code == 204
    driver.api.client.put("/api/v1/projects/default", json={"max_queued": None})
    found = run(driver, study, done=set(jobs.values()))
    assert (found["state"], found["message"]) == ("succeeded", None)
    states = {one["number"]: one["state"] for one in found["answer"]["runs"]}
    assert states[int(gone.split("/")[0].removeprefix("run-"))] == "cancelled"
    assert "finished" in states.values()


def test_failed_and_cancelled_jobs_do_not_stop_a_search(driver):
    study = create(driver, runs=6, parallel=1)

    def end(driver, job):
        number = len(driver.get(study)["jobs"])
        if number == 2:
            driver.fail(job, Reason.OUT_OF_MEMORY)
        elif number == 3:
            driver.api.client.post(f"/api/v1/jobs/{job}/cancel")
        else:
            finish(driver, job)

    answer = run(driver, study, end)["answer"]
    states = [one["state"] for one in answer["runs"]]
    assert states == ["finished", "failed", "cancelled", "finished", "finished", "finished"]
    assert answer["runs"][1]["explanation"] == "As the test says."


MOMENTUM = {"optimizer.momentum": {"choice": [0.5, 0.9]}}


def test_values_that_are_invalid_together_are_a_failed_run(driver):
    """Adam has no momentum."""
    space = {"optimizer.kind": {"choice": ["sgd", "adam"]}, **MOMENTUM}
    study = create(driver, space=space, method="grid")
    found = run(driver, study)
    assert found["state"] == "succeeded", found["message"]
    runs = found["answer"]["runs"]
    states = {one["values"]["optimizer.kind"]: (one["state"], len(one["jobs"])) for one in runs}
    assert (len(runs), states) == (4, {"sgd": ("finished", 1), "adam": ("failed", 0)})
    refused = next(one for one in runs if one["values"]["optimizer.kind"] == "adam")
    assert "/optimizer/momentum" in refused["explanation"]
    assert driver.api.client.get(f"{STUDIES}/{study}/report").status_code == 200


def test_a_search_without_a_result_names_the_values_that_are_invalid_together(driver):
    space = {"optimizer.kind": {"choice": ["sgd", "adam"]}, **MOMENTUM}
    study = create(driver, space=space, method="grid")
    found = run(driver, study, lambda driver, job: driver.fail(job, Reason.OUT_OF_MEMORY))
    assert found["state"] == "failed"
    assert "out_of_memory" in found["message"]
    assert "/optimizer/momentum" in found["message"]


def test_a_round_with_entries_that_changed_meanwhile_plans_nothing(driver, monkeypatch):
    """A server that does not know the newest result would promote another run besides."""
    space = {RATE: {"choice": [1e-4, 1e-3, 1.0, 1e-2]}}
    study = create(driver, space=space, method="grid", asha=ASHA)
    driver.progress.advance(study)
    *others, best = driver.jobs(study).values()
    for job in others:
        finish(driver, job)
    from ampspec.studies.search.search import SearchKind

    plan, is_first = SearchKind.jobs, True

    def overtaken(self, question, results):
        nonlocal is_first
        if is_first:
            is_first = False
            finish(driver, best)
            driver.progress.advance(study)  # the other server is faster
        return plan(self, question, results)

    monkeypatch.setattr(SearchKind, "jobs", overtaken)
    driver.progress.advance(study)
    assert list(driver.jobs(study))[4:] == ["run-4/step-30"]
    found = run(driver, study, done={*others, best})
    assert (found["state"], found["answer"]["best"]) == ("succeeded", 4)


def test_an_estimate_says_how_much_it_is_at_most(driver):
    def estimate(**options):
        body = {"kind": "search", "spec": LONG, "options": {"space": SPACE, **options}}
        found = driver.api.client.post(f"{STUDIES}/estimate", json=body).json()
        return [found[name] for name in ("jobs", "jobs_at_most", "steps", "steps_at_most")]

    assert estimate(runs=12, parallel=3) == [3, 12, 270, 12 * 90]
    assert estimate(runs=12, parallel=3, asha=ASHA) == [3, 36, 30, 12 * 90]
    assert estimate(runs=12, method="random") == [12, 12, 12 * 90, 12 * 90]


def test_the_progress_counts_runs_that_are_not_planned_yet(driver):
    study = create(driver, runs=8, parallel=2)
    driver.progress.advance(study)
    assert driver.get(study)["progress"] == 0.0
    for job in driver.jobs(study).values():
        finish(driver, job)
    driver.progress.advance(study)
    assert driver.get(study)["progress"] == 2 / 8
