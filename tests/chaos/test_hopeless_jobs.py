"""Jobs that cannot succeed: each is told why, in valid JSON, and none is tried for ever."""

import json
from typing import Any

import psutil
import pytest

from ampclient import Job
from ampcore.spec import State
from tests.chaos.cluster import Cluster
from tests.chaos.runs import ENDLESS, SPEC, outcomes, running
from tests.chaos.waiting import wait_until

pytestmark = pytest.mark.xdist_group("chaos-2")

NAN = {
    # Every gradient overflows float16, and the scale never comes down.
    "skip_budget_exceeded": {
        "loss_scale": {"mode": "fixed", "scale": 2.0**96},
        "guard": {"max_consecutive_skips": 40},
    },
    # Nothing is checked, and the weights are NaN after the first updates.
    "non_finite_loss": {
        "model": {"kind": "mlp", "hidden": [16], "activation": "linear"},
        "precision": {"policy": "float32"},
        "loss_scale": {"mode": "none"},
        "optimizer": {"kind": "sgd", "learning_rate": 1e6},
        "guard": {"max_consecutive_skips": 40},
    },
}
ROOM_BYTES = 512 * 2**20


@pytest.mark.parametrize("reason", NAN)
def test_a_job_of_nothing_but_nan_fails_once_and_reads_as_valid_json(
    cluster: Cluster, reason: str
) -> None:
    """The guards: no retry for such reasons; non-finite numbers are written as words.

    Checked: with skip_budget_exceeded in store.retries.RETRIED it is tried three times; without
    `finite_json` in store/ingest.py PostgreSQL refuses the steps.
    """
    cluster.crew(1)
    job = cluster.client.jobs.submit({**ENDLESS, **NAN[reason]}).wait(timeout=120)
    assert (job.state, job.reason, job.attempt) == (State.FAILED, reason, 1)
    said = "".join(documents(cluster, job))
    assert '"NaN"' in said or '"Infinity"' in said, "there was nothing to be written"
    steps = job.steps()
    assert len(steps) == job.step >= 40


def test_out_of_memory_is_said_once_and_not_tried_again(cluster: Cluster) -> None:
    """The guard: out of memory is no reason to try again.

    Checked: with out_of_memory in store.retries.RETRIED there are three attempts.
    """
    cluster.crew(0)
    [worker] = cluster.crew(1)  # a new one, whose trainer has loaded all that it loads
    [standby] = worker.trainers()
    # TensorFlow and the small data fit, the model's first matrix of 1 GB does not.
    room = standby.memory_info().vms + ROOM_BYTES
    standby.rlimit(psutil.RLIMIT_AS, (room, standby.rlimit(psutil.RLIMIT_AS)[1]))
    large = {**ENDLESS, "model": {"kind": "mlp", "hidden": [16_000, 16_000]}}
    job = cluster.client.jobs.submit(large).wait(timeout=120)
    assert (job.state, job.reason, job.attempt) == (State.FAILED, "out_of_memory", 1)
    assert len(outcomes(job)) == 1
    documents(cluster, job)


def test_a_job_that_loses_its_process_each_time_is_given_up(cluster: Cluster) -> None:
    """The guard: `max_attempts`.

    Checked: where store.retries.wait_s does not look at it, a third attempt begins.
    """
    cluster.crew(1)
    job = cluster.client.jobs.submit({**ENDLESS, "runtime": {**SPEC["runtime"], "max_attempts": 2}})
    for attempt in (1, 2):
        wait_until(lambda: job.refresh().attempt == attempt, 60, "it is tried")  # noqa: B023
        wait_until(lambda: running(job), 60, "it runs")
        cluster.owner(job).trainer.kill()
    wait_until(lambda: job.refresh().state.is_terminal, 30, "it is given up")
    job = job.refresh()
    assert (job.state, job.reason, job.attempt) == (State.FAILED, "process_killed", 2)
    assert outcomes(job) == [("failed", "process_killed")] * 2
    assert "2 times" in (job.message or "")


def documents(cluster: Cluster, job: Job) -> list[str]:
    """Everything that the API says of a job, as JSON in which no number is NaN or infinite."""
    parts = ("", "/steps", "/events", "/attempts", "/logs", "/artifacts")
    paths = [f"/jobs/{job.id}{part}" for part in parts] + ["/jobs", "/workers"]
    answers = [cluster.apis[0].http.get(f"/api/v1{path}") for path in paths]
    for answer in answers:
        assert answer.status_code == 200, answer.text
        json.loads(answer.text, parse_constant=refuse)
    return [answer.text for answer in answers]


def refuse(word: str) -> Any:
    raise AssertionError(f"{word} is no JSON")
