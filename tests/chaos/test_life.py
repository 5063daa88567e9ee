"""A job is paused, its worker is drained, its time is over: each goes through a checkpoint."""

import pytest

from ampcore.spec import State
from tests.chaos import groups
from tests.chaos.cluster import PACED, SCRIPTED, Cluster
from tests.chaos.runs import (
    HELD_AT,
    SPEC,
    Record,
    assert_undisturbed,
    outcomes,
    reached,
    scripted,
    states,
)
from tests.processes import has_ended, is_gone
from tests.waiting import DEADLINE_S, wait_until


@groups.REAL
def test_a_paused_job_gives_its_slot_away_and_goes_on_where_it_was(
    cluster: Cluster, undisturbed: Record
) -> None:
    """The guard: a pause stops the trainer at a checkpoint.

    Checked: where worker/halts.py does not look for it, the job stays "pausing".
    """
    cluster.crew(1)
    job = cluster.submit_held(SPEC)
    wait_until(lambda: reached(job, HELD_AT), "the job runs")
    trainer = cluster.trainer(job)
    job.pause()
    wait_until(lambda: job.refresh().state == State.PAUSED, "it is paused")
    assert has_ended(trainer)
    paused_at = job.refresh().step
    job.refresh().resume()
    job = cluster.finish(job)
    assert_undisturbed(job, undisturbed)
    assert [outcome for outcome, _ in outcomes(job)] == ["paused", "succeeded"]
    assert job.attempts()[1].first_step == paused_at, "steps were trained twice"


@pytest.mark.parametrize(
    ("asked", "trainer"),
    [
        pytest.param("SIGTERM", PACED, marks=groups.REAL, id="SIGTERM"),
        pytest.param("HTTP", SCRIPTED, marks=groups.SCRIPTED, id="HTTP"),
    ],
)
def test_a_drained_worker_hands_its_job_to_another_one(
    cluster: Cluster, request: pytest.FixtureRequest, asked: str, trainer: str
) -> None:
    """The guard: a worker that shuts down gives its jobs back.

    Checked: where worker/endings.py makes a failure of it, the job fails.
    """
    record = request.getfixturevalue("undisturbed") if trainer == PACED else scripted()
    cluster.crew(2, trainer)
    job = cluster.submit_held(SPEC)
    wait_until(lambda: reached(job, HELD_AT), "the job runs")
    worker = cluster.owner(job)
    children = worker.descendants()
    if asked == "HTTP":
        cluster.client.workers.drain(cluster.registered(worker).id)
    else:
        worker.ask_to_stop()
    assert worker.wait() == 0, worker.log
    assert all(map(has_ended, children))
    job = cluster.finish(job)
    assert_undisturbed(job, record)
    assert [outcome for outcome, _ in outcomes(job)] == ["handed_back", "succeeded"]
    assert job.attempts()[1].first_step, "it began anew"
    assert states(job) == ["queued", "starting", "running"] * 2 + ["succeeded"]
    assert cluster.registered(worker).state == "stopped"


@groups.SCRIPTED
def test_a_job_that_has_used_up_its_time_is_stopped_and_not_tried_again(cluster: Cluster) -> None:
    """The guard: the worker watches the time.

    Checked: without the timeout in worker/halts.py the job runs on.
    """
    cluster.crew(1, SCRIPTED)
    # The time counts from the claim: on a machine that is slow enough it ends before the training
    # begins, and all the same things hold.
    job = cluster.submit_held({**SPEC, "runtime": {**SPEC["runtime"], "timeout_s": 4}})
    job = job.wait(timeout=DEADLINE_S)
    assert (job.state, job.reason, job.attempt) == (State.FAILED, "timeout", 1)
    pid = cluster.control.pid(job.id, 1)
    assert pid is None or is_gone(pid)
    assert job.steps()["step"].tolist() == list(range(job.step))
