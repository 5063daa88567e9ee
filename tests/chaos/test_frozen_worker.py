"""A worker is suspended until another one has claimed its job, and then resumed."""

import pytest

from ampspec.jobs import State
from tests.chaos import xdist_groups
from tests.chaos.cluster import SCRIPTED, Cluster
from tests.chaos.reference_run import (
    HOLD_STEP,
    SPEC,
    TINY,
    TOTAL_STEPS,
    assert_equals_reference,
    outcomes,
    reached,
    scripted_reference,
)
from tests.processes import has_ended
from tests.waiting import DEADLINE_S, wait_until

pytestmark = [xdist_groups.SCRIPTED, pytest.mark.quick]


def test_writes_of_a_worker_that_lost_its_lease_are_refused(
    cluster: Cluster,
) -> None:
    """Mechanisms: a write names its attempt, and the number of entries before it.

    Checked: without `Job.attempt == attempt` in store/leases.py and the check of `entries_written`
    in store/telemetry/ingest.py the old attempt's steps are written. (Each alone still refuses
    them; tests/store tests them one by one.)
    """
    cluster.ensure_workers(2, SCRIPTED)
    job = cluster.submit_paused_at(SPEC)
    worker = cluster.wait_past_checkpoint(job)
    trainer = cluster.trainer(job)
    worker.suspend()
    cluster.expire_lease(job)
    wait_until(lambda: job.refresh().attempt == 2, "another worker takes the job")
    wait_until(lambda: reached(job, HOLD_STEP), "the job runs again")
    assert cluster.owner(job) is not worker
    # The first trainer continues too: its pipe holds unread frames when its worker resumes.
    cluster.train_to_step(job, TOTAL_STEPS)
    rows_before = rows_of(cluster, job.id, attempt=1)
    worker.resume()
    wait_until(lambda: has_ended(trainer), "the fenced trainer has ended")
    job = cluster.finish(job)
    assert_equals_reference(job, scripted_reference())
    assert rows_of(cluster, job.id, attempt=1) == rows_before
    assert outcomes(job) == [("lost", "worker_lost"), ("succeeded", None)]
    # The worker that lost the job still runs other ones.
    wait_until(lambda: cluster.registered(worker).state == "online", "it is online again")
    next_jobs = [cluster.submit_paused_at(TINY, step=0) for _ in range(2)]  # one for each worker
    wait_until(lambda: all(job.refresh().attempt for job in next_jobs), "both workers take one")
    cluster.control.release()
    ended = cluster.client.jobs.wait(next_jobs, timeout_s=DEADLINE_S)
    assert [job.state for job in ended] == [State.SUCCEEDED] * 2
    assert cluster.registered(worker).id in {job.worker_id for job in ended}


def rows_of(cluster: Cluster, job_id: str, attempt: int) -> dict[str, int]:
    """How many steps, events and log rows an attempt has stored."""
    from sqlalchemy import func, select

    from store.tables import EventRow, LogRow, StepBlockRow

    # Steps, not their rows, which are merged later.
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
