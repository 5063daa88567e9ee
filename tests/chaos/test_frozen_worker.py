"""A worker stands still until its job was given to another one, and then wakes."""

import pytest

from ampcore.spec import State
from tests.chaos.cluster import Cluster
from tests.chaos.process import gone
from tests.chaos.runs import SPEC, TINY, Record, assert_undisturbed, outcomes
from tests.chaos.waiting import wait_until

pytestmark = pytest.mark.xdist_group("chaos-1")


def test_what_a_worker_says_after_its_lease_was_given_away_is_refused(
    cluster: Cluster, undisturbed: Record
) -> None:
    """The guards: the fence names the attempt, and a write what was told before it.

    Checked: without `Job.attempt == attempt` in store/leases.py and `Job.told == told` in
    store/ingest.py the old attempt's steps are written. (Each alone still keeps them out;
    tests/store holds the two one by one.)
    """
    cluster.crew(2)
    job = cluster.client.jobs.submit(SPEC)
    worker = cluster.past_a_checkpoint(job)
    trainer = worker.trainer
    worker.freeze()
    wait_until(lambda: job.refresh().attempt == 2, 60, "another worker takes the job")
    assert cluster.owner(job) is not worker
    told = rows_of(cluster, job.id, attempt=1)
    worker.thaw()  # its trainer has gone on all the time, and its pipe is full of news
    wait_until(lambda: gone(trainer), 30, "the fenced trainer is gone")
    job = job.wait(timeout=120)
    assert_undisturbed(job, undisturbed)
    assert rows_of(cluster, job.id, attempt=1) == told
    assert outcomes(job) == [("lost", "worker_lost"), ("succeeded", None)]
    # It has lost a job, not its wits.
    wait_until(lambda: cluster.registered(worker).state == "online", 30, "it is online again")
    next_jobs = [cluster.client.jobs.submit(TINY) for _ in range(2)]  # one for each worker
    ended = cluster.client.jobs.wait(next_jobs, timeout=120)
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
