"""Jobs that cannot succeed: each fails with a reason, in valid JSON, and retries are bounded."""

import json
from typing import Any

import pytest

from ampclient import Job
from ampspec.jobs import State
from tests.chaos import xdist_groups
from tests.chaos.cluster import SCRIPTED, Cluster
from tests.chaos.reference_run import HOLD_STEP, SPEC, TINY, TOTAL_STEPS, outcomes, reached
from tests.waiting import DEADLINE_S, wait_until

ROOM_BYTES = 512 * 2**20


@xdist_groups.SCRIPTED
@pytest.mark.quick
@pytest.mark.parametrize("reason", ["skip_budget_exceeded", "non_finite_loss"])
def test_a_job_with_only_nan_losses_fails_once_with_valid_json(
    cluster: Cluster, reason: str
) -> None:
    """Mechanisms: these reasons are not retried; non-finite numbers are written as strings.

    Checked: with skip_budget_exceeded in store.jobs.retries.BACKOFF_BY_REASON there are three
    attempts; without `json_safe` in store/telemetry/ingest.py PostgreSQL refuses the steps.
    """
    cluster.ensure_workers(1, SCRIPTED)
    labels = {"script": "train_with_nan_loss", "reason": reason}
    job = cluster.client.jobs.submit({**SPEC, "labels": labels}).wait(timeout_s=DEADLINE_S)
    assert (job.state, job.reason, job.attempt) == (State.FAILED, reason, 1)
    texts = "".join(documents(cluster, job))
    assert '"NaN"' in texts, "there was nothing to be written"
    assert len(job.steps()) == job.step == TOTAL_STEPS


@xdist_groups.TENSORFLOW
def test_out_of_memory_is_not_retried(cluster: Cluster) -> None:
    """Mechanism: out of memory is not retried.

    Checked: with out_of_memory in store.jobs.retries.BACKOFF_BY_REASON there are three attempts.
    """
    cluster.ensure_workers(1)
    # TensorFlow and the small data fit, the model's first matrix of 1 GB does not.
    cluster.control.set_memory_limit(ROOM_BYTES)
    large = {**TINY, "model": {"kind": "mlp", "hidden": [16_000, 16_000]}}
    job = cluster.client.jobs.submit(large).wait(timeout_s=DEADLINE_S)
    assert (job.state, job.reason, job.attempt) == (State.FAILED, "out_of_memory", 1)
    assert len(outcomes(job)) == 1
    documents(cluster, job)


@xdist_groups.SCRIPTED
@pytest.mark.quick
def test_a_job_whose_process_always_dies_fails_after_max_attempts(cluster: Cluster) -> None:
    """Mechanism: `max_attempts`.

    Checked: if store.jobs.retries.wait_s ignores it, a third attempt starts.
    """
    cluster.ensure_workers(1, SCRIPTED)
    job = cluster.submit_paused_at({**SPEC, "runtime": {**SPEC["runtime"], "max_attempts": 2}})
    for attempt in (1, 2):
        wait_until(lambda: job.refresh().attempt == attempt, "the attempt starts")  # noqa: B023
        wait_until(lambda: reached(job, HOLD_STEP), "it runs")
        cluster.trainer(job).kill()
    wait_until(lambda: job.refresh().state.is_terminal, "the job fails")
    job = job.refresh()
    assert (job.state, job.reason, job.attempt) == (State.FAILED, "process_killed", 2)
    assert outcomes(job) == [("failed", "process_killed")] * 2
    assert "2 attempts failed." in (job.message or "")


def documents(cluster: Cluster, job: Job) -> list[str]:
    """Every response of the API about a job, checked to be strict JSON without NaN or infinity."""
    parts = ("", "/steps", "/events", "/attempts", "/logs", "/artifacts")
    paths = [f"/jobs/{job.id}{part}" for part in parts] + ["/jobs", "/workers"]
    responses = [cluster.apis[0].http.get(f"/api/v1{path}") for path in paths]
    for response in responses:
        assert response.status_code == 200, response.text
        json.loads(response.text, parse_constant=reject_constant)
    return [response.text for response in responses]


def reject_constant(word: str) -> Any:
    raise AssertionError(f"{word} is not JSON")
