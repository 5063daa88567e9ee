"""A worker stands still until its job was given to another one, and then wakes."""

from ampcore.spec import State
from tests.chaos import groups
from tests.chaos.cluster import SCRIPTED, Cluster
from tests.chaos.runs import (
    HELD_AT,
    SPEC,
    STEPS,
    TINY,
    assert_undisturbed,
    outcomes,
    reached,
    scripted,
)
from tests.processes import has_ended
from tests.waiting import DEADLINE_S, wait_until

pytestmark = groups.SCRIPTED


def test_what_a_worker_says_after_its_lease_was_given_away_is_refused(
    cluster: Cluster,
) -> None:
    """The guards: the fence names the attempt, and a write what was told before it.

    Checked: without `Job.attempt == attempt` in store/leases.py and `Job.told == told` in
    store/ingest.py the old attempt's steps are written. (Each alone still keeps them out;
    tests/store holds the two one by one.)
    """
    cluster.crew(2, SCRIPTED)
    job = cluster.submit_held(SPEC)
    worker = cluster.past_a_checkpoint(job)
    trainer = cluster.trainer(job)
    worker.freeze()
    cluster.lapse(job)
    wait_until(lambda: job.refresh().attempt == 2, "another worker takes the job")
    wait_until(lambda: reached(job, HELD_AT), "the job runs again")
    assert cluster.owner(job) is not worker
    cluster.train_to(job, STEPS)  # the first trainer goes on, too, and its pipe is full of news
    told = rows_of(cluster, job.id, attempt=1)
    worker.thaw()
    wait_until(lambda: has_ended(trainer), "the fenced trainer is gone")
    job = cluster.finish(job)
    assert_undisturbed(job, scripted())
    assert rows_of(cluster, job.id, attempt=1) == told
    assert outcomes(job) == [("lost", "worker_lost"), ("succeeded", None)]
    # It has lost a job, not its wits.
    wait_until(lambda: cluster.registered(worker).state == "online", "it is online again")
    next_jobs = [cluster.submit_held(TINY, step=0) for _ in range(2)]  # one for each worker
    wait_until(lambda: all(job.refresh().attempt for job in next_jobs), "both workers take one")
    cluster.control.release()
    ended = cluster.client.jobs.wait(next_jobs, timeout=DEADLINE_S)
    assert [job.state for job in ended] == [State.SUCCEEDED] * 2
    assert cluster.registered(worker).id in {job.worker_id for job in ended}


def rows_of(cluster: Cluster, job_id: str, attempt: int) -> dict[str, int]:
    """How much is written under an attempt's name."""
    from sqlalchemy import func, select

    from store.tables import EventRow, LogRow, StepBlockRow

    # Of steps not the rows, which are merged.
    amounts = {
        StepBlockRow: func.sum(StepBlockRow.end_step - StepBlockRow.first_step),
        EventRow: func.count(),
        LogRow: func.count(),
    }
    with cluster.database.read() as session:
        return {
            table.__tablename__: session.scalar(
                select(amount).where(table.job_id == job_id, table.attempt == attempt)
            )
            for table, amount in amounts.items()
        }
