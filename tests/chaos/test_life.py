"""A job is paused, its worker is drained, its time is over: each goes through a checkpoint."""

import pytest

from ampcore.spec import State
from tests.chaos.cluster import Cluster
from tests.chaos.process import gone
from tests.chaos.runs import ENDLESS, SPEC, Record, assert_undisturbed, outcomes, running, states
from tests.chaos.waiting import wait_until

pytestmark = pytest.mark.xdist_group("chaos-1")


def test_a_paused_job_gives_its_slot_away_and_goes_on_where_it_was(
    cluster: Cluster, undisturbed: Record
) -> None:
    """The guard: a pause stops the trainer at a checkpoint.

    Checked: where worker/halts.py does not look for it, the job stays "pausing".
    """
    [worker] = cluster.crew(1)
    job = cluster.client.jobs.submit(SPEC)
    wait_until(lambda: running(job), 90, "the job runs")
    trainer = worker.trainer
    job.pause()
    wait_until(lambda: job.refresh().state == State.PAUSED, 30, "it is paused")
    assert gone(trainer)
    paused_at = job.refresh().step
    job.refresh().resume()
    job = job.wait(timeout=120)
    assert_undisturbed(job, undisturbed)
    assert [outcome for outcome, _ in outcomes(job)] == ["paused", "succeeded"]
    assert job.attempts()[1].first_step == paused_at, "steps were trained twice"


@pytest.mark.parametrize("asked", ["SIGTERM", "HTTP"])
def test_a_drained_worker_hands_its_job_to_another_one(
    cluster: Cluster, undisturbed: Record, asked: str
) -> None:
    """The guard: a worker that shuts down gives its jobs back.

    Checked: where worker/endings.py makes a failure of it, the job fails.
    """
    cluster.crew(2)
    job = cluster.client.jobs.submit(SPEC)
    wait_until(lambda: running(job), 90, "the job runs")
    worker = cluster.owner(job)
    children = worker.children()
    if asked == "HTTP":
        cluster.client.workers.drain(cluster.registered(worker).id)
    else:
        worker.ask_to_stop()
    assert worker.wait() == 0, worker.log
    assert all(map(gone, children))
    job = job.wait(timeout=120)
    assert_undisturbed(job, undisturbed)
    assert [outcome for outcome, _ in outcomes(job)] == ["handed_back", "succeeded"]
    assert job.attempts()[1].first_step, "it began anew"
    assert states(job) == ["queued", "starting", "running"] * 2 + ["succeeded"]
    assert cluster.registered(worker).state == "stopped"


def test_a_job_that_has_used_up_its_time_is_stopped_and_not_tried_again(cluster: Cluster) -> None:
    """The guard: the worker watches the time.

    Checked: without the timeout in worker/halts.py the job runs on.
    """
    [worker] = cluster.crew(1)
    # On a busy machine a job needs seconds until it trains, and the time counts from the claim.
    spec = {**ENDLESS, "runtime": {**SPEC["runtime"], "timeout_s": 12}}
    job = cluster.client.jobs.submit(spec)
    wait_until(lambda: running(job), 90, "the job runs")
    trainer = worker.trainer
    job = job.wait(timeout=60)
    assert (job.state, job.reason, job.attempt) == (State.FAILED, "timeout", 1)
    assert gone(trainer)
    assert job.steps()["step"].tolist() == list(range(job.step))
