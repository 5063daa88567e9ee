"""Ranks that train with TensorFlow: a job with killed ranks equals one that was undisturbed."""

from sqlalchemy import update

from store.clock import after
from store.gangs import GROW_AFTER_S
from store.tables import Attempt
from tests.chaos import xdist_groups
from tests.chaos.cluster import Cluster
from tests.chaos.reference_run import BLOCK_STEPS, HOLD_STEP, SPEC, TOTAL_STEPS, outcomes, reached
from tests.processes import has_ended
from tests.waiting import wait_until

pytestmark = xdist_groups.TENSORFLOW

RANKS = {
    **SPEC,
    "data": {"kind": "digits", "batch_size": 16},
    "runtime": {**SPEC["runtime"], "workers": 2, "max_attempts": 10},
}


def test_a_job_whose_ranks_are_killed_equals_an_undisturbed_one(cluster: Cluster) -> None:
    """Mechanisms: as in test_gangs.py, with the collectives and the checkpoints of the library.

    Checked: with `"resume": False` in worker/attempt.py it fails with "it restarted at step 0".
    """
    cluster.ensure_workers(2)
    undisturbed = cluster.finish(cluster.client.jobs.submit(RANKS))
    assert outcomes(undisturbed) == [("succeeded", None)], undisturbed.message
    job = cluster.submit_paused_at(RANKS)
    for number in (0, 1):
        wait_until(lambda: reached(job, HOLD_STEP), "the job trains as far as it may")
        ranks = [cluster.rank(job, one) for one in range(2)]
        ranks[number].kill()
        cluster.start_next_attempt(job)
        assert all(map(has_ended, ranks))
    job = cluster.finish(job)
    assert [outcome for outcome, _ in outcomes(job)] == ["failed", "failed", "succeeded"]
    assert [reason for _, reason in outcomes(job)][:2] == ["process_killed"] * 2
    assert all(attempt.first_step for attempt in job.attempts()[1:]), "it restarted at step 0"
    assert job.steps()["step"].tolist() == list(range(TOTAL_STEPS))
    assert job.steps()["loss"].tolist() == undisturbed.steps()["loss"].tolist()
    assert job.summary.weights_digest == undisturbed.summary.weights_digest


def test_an_elastic_job_shrinks_and_grows_with_its_workers(cluster: Cluster) -> None:
    """Mechanisms: fewer ranks when workers are gone, more at a checkpoint; the same global batch.

    Checked: if `counts` of store/gang_placement.py has only the number in the spec, the second
    attempt never starts; without `request_growth` the third does not.
    """
    cluster.ensure_workers(2)
    elastic = {**RANKS["runtime"], "elastic": {"min": 1, "max": 2}}
    job = cluster.submit_paused_at({**RANKS, "runtime": elastic})
    wait_until(lambda: reached(job, HOLD_STEP), "the job trains as far as it may")
    gone = cluster.worker_of_rank(job, 1)
    gone.kill()
    cluster.expire_member(job, gone)
    cluster.start_next_attempt(job)
    cluster.control.hold(HOLD_STEP + BLOCK_STEPS)
    wait_until(lambda: reached(job, HOLD_STEP + BLOCK_STEPS), "it trains with one rank")
    assert len(job.attempts()[1].ranks) == 1
    cluster.ensure_workers(2)
    with cluster.database.write() as session:
        long_ago = after(-2 * GROW_AFTER_S)
        session.execute(update(Attempt).where(Attempt.job_id == job.id).values(started_at=long_ago))
    wait_until(lambda: job.refresh().attempt == 3, "it starts with two ranks")
    job = cluster.finish(job)
    assert outcomes(job) == [
        ("lost", "worker_lost"), ("handed_back", "resized"), ("succeeded", None)
    ]  # fmt: skip
    assert [len(attempt.ranks) for attempt in job.attempts()] == [2, 1, 2]
    assert all(attempt.first_step for attempt in job.attempts()[1:]), "it restarted at step 0"
    steps = job.steps()
    assert steps["step"].tolist() == list(range(TOTAL_STEPS))
    assert set(steps["examples"].tolist()[: HOLD_STEP // 2]) == set(steps["examples"].tolist())
