"""A pause, a drain and a timeout: each stops the trainer at a checkpoint."""

import pytest

from ampspec.jobs import State
from tests.chaos import xdist_groups
from tests.chaos.cluster import PACED, SCRIPTED, Cluster
from tests.chaos.reference_run import (
    HOLD_STEP,
    SPEC,
    RunResult,
    assert_equals_reference,
    outcomes,
    reached,
    states,
)
from tests.processes import has_ended, is_gone
from tests.waiting import DEADLINE_S, wait_until


@xdist_groups.with_each_trainer
def test_a_paused_job_frees_its_slot_and_resumes_exactly(
    cluster: Cluster, trainer: str, reference: RunResult
) -> None:
    """Mechanism: a pause stops the trainer at a checkpoint.

    Checked: if worker/attempt/stop_reason.py ignores the request, the job stays "pausing".
    """
    cluster.ensure_workers(1, trainer)
    job = cluster.submit_paused_at(SPEC)
    wait_until(lambda: reached(job, HOLD_STEP), "the job runs")
    process = cluster.trainer(job)
    job.pause()
    wait_until(lambda: job.refresh().state == State.PAUSED, "it is paused")
    assert has_ended(process)
    paused_at = job.refresh().step
    job.refresh().resume()
    job = cluster.finish(job)
    assert_equals_reference(job, reference)
    assert [outcome for outcome, _ in outcomes(job)] == ["paused", "succeeded"]
    assert job.attempts()[1].first_step == paused_at, "steps were trained twice"


@pytest.mark.parametrize(
    ("method", "trainer"),
    [
        pytest.param("SIGTERM", PACED, marks=xdist_groups.TENSORFLOW, id="SIGTERM"),
        pytest.param("HTTP", SCRIPTED, marks=[xdist_groups.SCRIPTED, pytest.mark.quick], id="HTTP"),
    ],
)
def test_a_drained_worker_hands_its_job_to_another(
    cluster: Cluster, method: str, trainer: str, reference: RunResult
) -> None:
    """Mechanism: a worker that shuts down hands its jobs back.

    Checked: if worker/attempt/outcome.py makes it a failure, the job fails.
    """
    cluster.ensure_workers(2, trainer)
    job = cluster.submit_paused_at(SPEC)
    wait_until(lambda: reached(job, HOLD_STEP), "the job runs")
    worker = cluster.owner(job)
    children = worker.descendants()
    if method == "HTTP":
        cluster.client.workers.drain(cluster.registered(worker).id)
    else:
        worker.ask_to_stop()
    assert worker.wait() == 0, worker.log
    assert all(map(has_ended, children))
    job = cluster.finish(job)
    assert_equals_reference(job, reference)
    assert [outcome for outcome, _ in outcomes(job)] == ["requeued", "succeeded"]
    assert job.attempts()[1].first_step, "it restarted at step 0"
    assert states(job) == ["queued", "starting", "running"] * 2 + ["succeeded"]
    assert cluster.registered(worker).state == "stopped"


@xdist_groups.SCRIPTED
@pytest.mark.quick
def test_a_job_past_its_timeout_is_stopped_and_not_retried(cluster: Cluster) -> None:
    """Mechanism: the worker checks the timeout.

    Checked: without the timeout in worker/attempt/stop_reason.py the job keeps running.
    """
    cluster.ensure_workers(1, SCRIPTED)
    # The timeout counts from the claim: on a slow machine it may end before the first step, and
    # the same assertions hold.
    job = cluster.submit_paused_at({**SPEC, "runtime": {**SPEC["runtime"], "timeout_s": 4}})
    job = job.wait(timeout_s=DEADLINE_S)
    assert (job.state, job.reason, job.attempt) == (State.FAILED, "timeout", 1)
    pid = cluster.control.pid(job.id, 1)
    assert pid is None or is_gone(pid)
    assert job.steps()["step"].tolist() == list(range(job.step))
