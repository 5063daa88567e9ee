"""Ranks that train with TensorFlow: a job that lost ranks equals one that was undisturbed."""

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import psutil
import pytest
from sqlalchemy import update

from ampclient import Job
from ampspec.jobs import State
from store.clock import from_now
from store.gangs.gangs import GROW_AFTER_S
from store.tables import Attempt
from tests.chaos import xdist_groups
from tests.chaos.cluster import Cluster, rank_name
from tests.chaos.programs import phases
from tests.chaos.reference_run import (
    BLOCK_STEPS,
    HOLD_STEP,
    SPEC,
    TOTAL_STEPS,
    RunResult,
    outcomes,
    reached,
    saved_at,
)
from tests.processes import has_ended
from tests.waiting import wait_until

pytestmark = xdist_groups.TENSORFLOW

TIMEOUT_S = 5.0
"""`runtime.exchange.timeout_s` of a job whose rank is suspended."""
MAX_ATTEMPTS = 100
"""On a busy machine, a rank may be lost by itself."""

RANKS = {
    **SPEC,
    "data": {"kind": "digits", "batch_size": 16},
    "train": {**SPEC["train"], "eval_every_epochs": 1},
    "runtime": {**SPEC["runtime"], "workers": 2, "max_attempts": MAX_ATTEMPTS},
}


@pytest.fixture(scope="module")
def undisturbed(shared_cluster: Callable[[], Cluster]) -> RunResult:
    """The result of a job whose ranks were not disturbed."""
    cluster = shared_cluster()
    cluster.ensure_workers(2)
    job = cluster.finish(cluster.client.jobs.submit(RANKS))
    assert outcomes(job) == [("succeeded", None)], job.message
    return RunResult(job.steps(), job.summary.weights_digest)


def assert_equals(job: Job, undisturbed: RunResult) -> None:
    """Assert that the job has each step once, with the bits of the undisturbed job."""
    assert (job.state, job.message) == (State.SUCCEEDED, None)
    steps = job.steps()
    assert steps["step"].tolist() == list(range(TOTAL_STEPS))
    for name in ("loss", "loss_scale", "skipped", "grad_norm"):
        np.testing.assert_array_equal(steps[name], undisturbed.steps[name], err_msg=name)
    assert job.summary.weights_digest == undisturbed.weights_digest


def test_a_job_whose_ranks_are_killed_in_each_phase_equals_an_undisturbed_one(
    cluster: Cluster, undisturbed: RunResult
) -> None:
    """Mechanisms: as in test_gangs.py, with the collectives and the checkpoints of the library.

    While rank 0 saves or evaluates, the others wait for it. Checked: with `"resume": False` in
    worker/attempt/trainer_supervisor.py it fails with "it restarted at step 0".
    """
    cluster.ensure_workers(2)
    kills = [(phase, number) for phase in phases.ALL for number in range(2)]
    for attempt, (phase, number) in enumerate(kills, start=1):
        held = 0 if phase in phases.OF_RANK_0 else number
        cluster.control.hold_in(phase, attempt, held)
    job = cluster.client.jobs.submit(RANKS)
    for attempt, (phase, number) in enumerate(kills, start=1):
        wait_until(lambda n=attempt: job.refresh().attempt == n, f"attempt {attempt} starts")
        ranks = [cluster.rank(job, one) for one in range(2)]
        for one in [0] if phase in phases.OF_RANK_0 else [0, 1]:
            cluster.wait_in_phase(job, phase, one)
        if phase != phases.CONNECTING:
            wait_until(lambda: saved_at(job), "a checkpoint is recorded")
        ranks[number].kill()
        cluster.start_next_attempt(job)
        ended = job.attempts()[-1]
        assert (ended.outcome, ended.reason) == ("failed", "process_killed"), ended.message
        assert all(map(has_ended, ranks)), f"rank {number} was killed: {phase}"
    job = cluster.finish(job)
    assert_equals(job, undisturbed)
    # The checkpoint was recorded in the first attempt that trained.
    first = 1 + [phase for phase, _ in kills].index(phases.TRAINING)
    assert all(attempt.first_step for attempt in job.attempts()[first:]), "it restarted at step 0"


@pytest.mark.parametrize("number", [0, 1])
def test_a_suspended_rank_is_lost_and_the_job_equals_an_undisturbed_one(
    cluster: Cluster, undisturbed: RunResult, number: int
) -> None:
    """Mechanism: the other rank, in its compiled loop, misses the heartbeats of this one.

    On a busy machine other attempts may be lost too, since the timeout is short. Checked: if
    `with_cause` of worker/gangs/gang_leader.py begins with what is known of rank 0, the message
    does not name a suspended rank 0.
    """
    cluster.ensure_workers(2)
    runtime = {**RANKS["runtime"], "exchange": {"timeout_s": TIMEOUT_S}}
    for attempt in range(1, MAX_ATTEMPTS):
        cluster.control.hold_in(phases.TRAINING, attempt, number)
    job = cluster.client.jobs.submit({**RANKS, "runtime": runtime})
    ranks, suspended = suspend_in_training(cluster, job, number)
    wait_until(lambda: job.attempts()[suspended - 1].outcome, f"attempt {suspended} ends")
    ended = job.attempts()[suspended - 1]
    assert all(map(has_ended, ranks))
    assert (ended.outcome, ended.reason) == ("failed", "rank_lost"), ended.message
    assert f"rank {number}" in str(ended.message).lower()
    cluster.control.release()
    wait_until(lambda: retried(cluster, job).state.is_terminal, "the job ends")
    assert_equals(job.refresh(), undisturbed)


def suspend_in_training(
    cluster: Cluster, job: Job, number: int
) -> tuple[list[psutil.Process], int]:
    """Suspend a rank in the first attempt that trains; returns all ranks, and the attempt."""
    while True:
        attempt = wait_until(lambda: attempt_in_training(cluster, job, number), "a rank trains")
        ranks = [cluster.rank(job, one) for one in range(2)]
        with suppress(psutil.NoSuchProcess):
            ranks[number].suspend()
            if not job.attempts()[attempt - 1].outcome:
                return ranks, attempt


def attempt_in_training(cluster: Cluster, job: Job, number: int) -> int | None:
    """The current attempt, once this rank is held in it; ends the delay before each attempt."""
    job = retried(cluster, job)
    name = rank_name(job, number)
    return job.attempt if cluster.control.has_entered(phases.TRAINING, name, job.attempt) else None


def retried(cluster: Cluster, job: Job) -> Job:
    """The job as it is now; ends the delay of its next attempt."""
    job = job.refresh()
    if job.state == State.QUEUED:
        cluster.end_retry_delay(job)
    return job


def test_an_elastic_job_shrinks_and_grows_with_its_workers(cluster: Cluster) -> None:
    """Mechanisms: fewer ranks when workers are gone, more at a checkpoint; the same global batch.

    Checked: if `counts` of store/scheduling/gang_placement.py has only the number in the spec, the
    second attempt never starts; without `request_growth` the third does not.
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
        long_ago = from_now(-2 * GROW_AFTER_S)
        session.execute(update(Attempt).where(Attempt.job_id == job.id).values(started_at=long_ago))
    wait_until(lambda: job.refresh().attempt == 3, "it starts with two ranks")
    job = cluster.finish(job)
    assert outcomes(job) == [
        ("lost", "worker_lost"), ("requeued", "resized"), ("succeeded", None)
    ]  # fmt: skip
    assert [len(attempt.ranks) for attempt in job.attempts()] == [2, 1, 2]
    assert all(attempt.first_step for attempt in job.attempts()[1:]), "it restarted at step 0"
    steps = job.steps()
    assert steps["step"].tolist() == list(range(TOTAL_STEPS))
    assert set(steps["examples"].tolist()[: HOLD_STEP // 2]) == set(steps["examples"].tolist())
