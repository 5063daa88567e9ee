"""A worker is killed while it explains a step: another one explains it, once."""

import pytest

from tests.chaos import xdist_groups
from tests.chaos.cluster import SCRIPTED, Cluster
from tests.chaos.programs import scripted_values
from tests.chaos.reference_run import BLOCK_STEPS, SPEC, TOTAL_STEPS, outcomes, reached
from tests.processes import has_ended
from tests.waiting import wait_until

pytestmark = [xdist_groups.SCRIPTED, pytest.mark.quick]

STEP = 2 * BLOCK_STEPS


def test_a_step_is_explained_once_by_another_worker_after_the_first_was_killed(
    cluster: Cluster,
) -> None:
    """Mechanism: an explanation is a job, whose lease the reconciler ends as that of every job.

    Its checkpoints are those of the job that it explains, also in the second attempt. Checked:
    without `expire` in server/background/reconciler.py no worker takes the explanation; with
    `explain=None` for attempts after the first one in worker/attempt/trainer_supervisor.py it
    trains instead.
    """
    workers = cluster.ensure_workers(2, SCRIPTED)
    job = cluster.finish(cluster.client.jobs.submit(SPEC))
    cluster.control.hold(BLOCK_STEPS)
    explanation = job.explain(STEP)
    wait_until(lambda: reached(explanation, BLOCK_STEPS), "it repeats steps")
    assert explanation.answer() is None
    killed = cluster.owner(explanation)
    children = killed.descendants()
    killed.kill()
    wait_until(lambda: all(map(has_ended, children)), "its children have ended")
    cluster.expire_lease(explanation)
    wait_until(lambda: explanation.refresh().attempt == 2, "another worker takes it")
    [other] = [worker for worker in workers if worker is not killed]
    assert cluster.owner(explanation) is other
    explanation = cluster.finish(explanation)
    assert (explanation.state, explanation.message) == ("succeeded", None)
    assert outcomes(explanation) == [("lost", "worker_lost"), ("succeeded", None)]
    answers = [event for event in explanation.events() if event.type == "explanation"]
    assert [event.step for event in answers] == [STEP]
    assert explanation.answer() == answers[0].data
    assert answers[0].data["recorded"]["loss"] == scripted_values.steps(STEP, 1)["loss"][0]
    # Both attempts begin at the newest checkpoint before the step, if the job has kept one.
    [begins] = {one.data["first_step"] for one in explanation.events() if one.type == "started"}
    assert explanation.steps()["step"].tolist() == list(range(begins, STEP + 1))
    assert [one.job for one in job.explanations()] == [explanation.id]
    # The explained job is as it was.
    assert (job.refresh().attempt, job.refresh().step) == (1, TOTAL_STEPS)
