"""A trainer or a worker is killed: the next attempt resumes from the last recorded checkpoint."""

from tests.chaos import xdist_groups
from tests.chaos.cluster import Cluster
from tests.chaos.reference_run import SPEC, RunResult, assert_equals_reference, outcomes, states
from tests.processes import has_ended
from tests.waiting import wait_until


@xdist_groups.with_each_trainer
def test_a_job_resumes_from_its_last_checkpoint_after_its_trainer_was_killed(
    cluster: Cluster, trainer: str, reference: RunResult
) -> None:
    """Mechanism: the recorded checkpoint is downloaded, and the trainer resumes from it.

    Checked: with `"resume": False` in worker/attempt/trainer_supervisor.py it fails with "it
    restarted at step 0".
    """
    cluster.ensure_workers(1, trainer)
    job = cluster.submit_paused_at(SPEC)
    cluster.wait_past_checkpoint(job)
    cluster.trainer(job).kill()
    job = cluster.finish(job)
    assert_equals_reference(job, reference)
    assert outcomes(job) == [("failed", "process_killed"), ("succeeded", None)]
    resumed_at = job.attempts()[1].first_step
    assert resumed_at, "it restarted at step 0"
    # The first attempt's steps can still be read, also those that were repeated.
    assert len(job.steps(attempt=1)) >= resumed_at


@xdist_groups.with_each_trainer
def test_children_of_a_killed_worker_die_and_another_worker_resumes(
    cluster: Cluster, trainer: str, reference: RunResult
) -> None:
    """Mechanisms: trainers die with their worker; the reconciler requeues jobs of lost workers.

    Checked: without PR_SET_PDEATHSIG, the watch on standard input and
    infra/isolation/process_group_tracker.py the children stay; without `expire` in
    server/background/reconciler.py no worker takes the job.
    """
    workers = cluster.ensure_workers(2, trainer)
    job = cluster.submit_paused_at(SPEC)
    worker = cluster.wait_past_checkpoint(job)
    children = worker.descendants()
    assert cluster.trainer(job) in children
    worker.kill()
    wait_until(lambda: all(map(has_ended, children)), "its children have ended")
    cluster.expire_lease(job)
    wait_until(lambda: job.refresh().attempt == 2, "another worker takes the job")
    [other] = [one for one in workers if one is not worker]
    assert cluster.owner(job) is other
    job = cluster.finish(job)
    assert_equals_reference(job, reference)
    assert outcomes(job) == [("lost", "worker_lost"), ("succeeded", None)]
    assert job.attempts()[1].first_step, "it restarted at step 0"
    assert states(job) == ["queued", "starting", "running"] * 2 + ["succeeded"]
