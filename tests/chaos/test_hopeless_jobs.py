"""Jobs that cannot succeed: each is told why, in valid JSON, and none is tried for ever."""

import json
from typing import Any

import pytest

from ampclient import Job
from ampcore.spec import State
from tests.chaos import groups
from tests.chaos.cluster import SCRIPTED, Cluster
from tests.chaos.runs import HELD_AT, SPEC, STEPS, TINY, outcomes, reached
from tests.waiting import DEADLINE_S, wait_until

ROOM_BYTES = 512 * 2**20


@groups.SCRIPTED
@pytest.mark.parametrize("reason", ["skip_budget_exceeded", "non_finite_loss"])
def test_a_job_of_nothing_but_nan_fails_once_and_reads_as_valid_json(
    cluster: Cluster, reason: str
) -> None:
    """The guards: no retry for such reasons; non-finite numbers are written as words.

    Checked: with skip_budget_exceeded in store.retries.RETRIED it is tried three times; without
    `finite_json` in store/ingest.py PostgreSQL refuses the steps. When a trainer gives such a
    reason, tests/ampcore/train/test_guard.py holds.
    """
    cluster.crew(1, SCRIPTED)
    labels = {"script": "not_a_number", "reason": reason}
    job = cluster.client.jobs.submit({**SPEC, "labels": labels}).wait(timeout=DEADLINE_S)
    assert (job.state, job.reason, job.attempt) == (State.FAILED, reason, 1)
    said = "".join(documents(cluster, job))
    assert '"NaN"' in said, "there was nothing to be written"
    assert len(job.steps()) == job.step == STEPS


@groups.REAL
def test_out_of_memory_is_said_once_and_not_tried_again(cluster: Cluster) -> None:
    """The guard: out of memory is no reason to try again.

    Checked: with out_of_memory in store.retries.RETRIED there are three attempts.
    """
    cluster.crew(1)
    # TensorFlow and the small data fit, the model's first matrix of 1 GB does not.
    cluster.control.leave_memory(ROOM_BYTES)
    large = {**TINY, "model": {"kind": "mlp", "hidden": [16_000, 16_000]}}
    job = cluster.client.jobs.submit(large).wait(timeout=DEADLINE_S)
    assert (job.state, job.reason, job.attempt) == (State.FAILED, "out_of_memory", 1)
    assert len(outcomes(job)) == 1
    documents(cluster, job)


@groups.SCRIPTED
def test_a_job_that_loses_its_process_each_time_is_given_up(cluster: Cluster) -> None:
    """The guard: `max_attempts`.

    Checked: where store.retries.wait_s does not look at it, a third attempt begins.
    """
    cluster.crew(1, SCRIPTED)
    job = cluster.submit_held({**SPEC, "runtime": {**SPEC["runtime"], "max_attempts": 2}})
    for attempt in (1, 2):
        wait_until(lambda: job.refresh().attempt == attempt, "it is tried")  # noqa: B023
        wait_until(lambda: reached(job, HELD_AT), "it runs")
        cluster.trainer(job).kill()
    wait_until(lambda: job.refresh().state.is_terminal, "it is given up")
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
