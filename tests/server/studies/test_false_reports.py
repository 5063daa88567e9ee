"""Jobs with custom code that report nonsense: their studies end, and other studies go on."""

import pytest

from ampspec.telemetry import Event, EventType
from tests.databases import ON_SQLITE
from tests.server.studies.conftest import SPEC, STUDIES

WRONG = ["x", None, [], {}, -1, 1e308, float("nan"), "Infinity", 10**18]
SUMMARY = (
    *("median_examples_per_s", "steps_s", "peak_memory_bytes", "final_loss", "tf32", "train_s"),
    *("constant_metrics", "metrics", "val_accuracy", "examples_per_s", "parameters"),
)


def false_events(value):
    memory = {"activations": value, "total": value}
    return (
        Event(EventType.STARTED, None, {"steps_per_epoch": value, "dropped_examples": value}),
        Event(EventType.STARTED, None, {"steps_per_epoch": 1, "data": {"split_seed": value}}),
        Event(EventType.PREFLIGHT, None, {"code": "figures"}),
        Event(EventType.PREFLIGHT, None, {"code": "figures", "data": value}),
        Event(
            EventType.PREFLIGHT,
            None,
            {"code": "figures", "data": {"policy": "float32", "memory": {"float32": memory}}},
        ),
        Event(
            EventType.PREFLIGHT,
            None,
            {"code": "figures", "data": {"policy": value, "memory": value}},
        ),
    )


OPTIONS = {
    "precision": {"policies": ["mixed_bfloat16"], "seeds": 2},
    "search": {"space": {"optimizer.learning_rate": {"uniform": [0.1, 1]}}, "runs": 2},
    "capacity": {"policies": ["mixed_bfloat16"]},
    "bisect": {},
}
MAX_ROUNDS = 60


@ON_SQLITE
@pytest.mark.parametrize("value", WRONG, ids=repr)
@pytest.mark.parametrize("kind", OPTIONS)
def test_a_study_of_jobs_that_report_nonsense_ends(driver, value, kind):
    """Before, some rounds failed again and again, and the study ran for ever."""
    driver.report_cpu(2**34)
    body = {"kind": kind, "spec": SPEC, "options": OPTIONS[kind]}
    response = driver.api.client.post(STUDIES, json=body)
    assert response.status_code == 201, response.text
    study = response.json()["id"]
    rounds = 0
    while (found := driver.get(study))["state"] in ("running", "stopping") and rounds < MAX_ROUNDS:
        rounds += 1
        driver.progress.advance(study)
        for job in driver.jobs(study).values():
            if job and driver.api.client.get(f"/api/v1/jobs/{job}").json()["state"] == "queued":
                driver.succeed(job, *false_events(value), **dict.fromkeys(SUMMARY, value))
    assert found["state"] in ("succeeded", "failed"), found
