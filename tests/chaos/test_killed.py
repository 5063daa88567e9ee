"""A trainer or a worker is killed: the next attempt goes on where the ledger says it may."""

from tests.chaos import groups
from tests.chaos.cluster import Cluster
from tests.chaos.runs import SPEC, Record, assert_undisturbed, outcomes, states
from tests.processes import has_ended
from tests.waiting import wait_until

pytestmark = groups.REAL


def test_a_killed_trainers_job_goes_on_from_its_last_checkpoint(
    cluster: Cluster, undisturbed: Record
) -> None:
    """The guard: a recorded checkpoint is fetched, and the trainer is told to resume.

    Checked: with `"resume": False` in worker/attempt.py it fails with "it began anew".
    """
    cluster.crew(1)
    job = cluster.submit_held(SPEC)
    cluster.past_a_checkpoint(job)
    cluster.trainer(job).kill()
    job = cluster.finish(job)
    assert_undisturbed(job, undisturbed)
    assert outcomes(job) == [("failed", "process_killed"), ("succeeded", None)]
    went_on_at = job.attempts()[1].first_step
    assert went_on_at, "it began anew"
    # What the first attempt told is still there to be read, also where it is superseded.
    assert len(job.steps(attempt=1)) >= went_on_at


def test_a_killed_workers_children_die_and_another_worker_goes_on(
    cluster: Cluster, undisturbed: Record
) -> None:
    """The guards: trainers die with their worker; the reconciler gives lost jobs away.

    Checked: without PR_SET_PDEATHSIG, the watch on standard input and worker/guard.py the children
    stay; without `expire` in server/reconcile.py nobody takes the job.
    """
    workers = cluster.crew(2)
    job = cluster.submit_held(SPEC)
    worker = cluster.past_a_checkpoint(job)
    children = worker.descendants()
    assert cluster.trainer(job) in children
    worker.kill()
    wait_until(lambda: all(map(has_ended, children)), "its children are gone")
    cluster.lapse(job)
    wait_until(lambda: job.refresh().attempt == 2, "another worker takes the job")
    [other] = [one for one in workers if one is not worker]
    assert cluster.owner(job) is other
    job = cluster.finish(job)
    assert_undisturbed(job, undisturbed)
    assert outcomes(job) == [("lost", "worker_lost"), ("succeeded", None)]
    assert job.attempts()[1].first_step, "it began anew"
    assert states(job) == ["queued", "starting", "running"] * 2 + ["succeeded"]
