"""Jobs with several ranks on several workers: whatever ends one rank ends all, and they resume."""

import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psutil
import pytest

from ampspec.jobs import State
from tests.chaos import xdist_groups
from tests.chaos.cluster import SCRIPTED, Cluster
from tests.chaos.proxy import Proxy
from tests.chaos.reference_run import (
    HOLD_STEP,
    SPEC,
    TINY,
    assert_equals_reference,
    outcomes,
    reached,
    scripted_reference,
    states,
)
from tests.processes import has_ended
from tests.waiting import DEADLINE_S, wait_until

pytestmark = [xdist_groups.RANKS_AND_RUNS, pytest.mark.quick]

TIMEOUT_S = 3600
"""Longer than a test: a rank is lost only if the test ends the time for its answer."""

UNISOLATED: dict[str, Any] = {"grace_s": 1, "AMPCORE_TRAINER_ISOLATION": "off"}
"""Workers whose ranks may use other ports than those of their cluster: that of a proxy."""


def gang(workers: int, devices: int = 1, **runtime: Any) -> dict[str, Any]:
    """A spec with several ranks."""
    ranks = {"workers": workers, "devices": devices, "exchange": {"timeout_s": TIMEOUT_S}}
    return {**SPEC, "runtime": {**SPEC["runtime"], "max_attempts": 50, **ranks, **runtime}}


@pytest.mark.parametrize(
    ("phases", "numbers"),
    [
        pytest.param([HOLD_STEP], [1], id="one rank in one phase"),
        # Before the first step, and with recorded checkpoints.
        pytest.param(
            [0, HOLD_STEP], range(4), marks=pytest.mark.slow, id="each rank in each phase"
        ),
    ],
)
def test_a_rank_is_killed(cluster: Cluster, phases: Sequence[int], numbers: Sequence[int]) -> None:
    """Mechanisms: the worker of rank 0 watches the others, and all resume from its checkpoint.

    Checked: if worker/gangs/gang_leader.py reports no failure of other workers, the ranks wait for
    ever.
    """
    cluster.ensure_workers(2, SCRIPTED, AMPCORE_WORKER_SLOTS="2")
    job = cluster.submit_paused_at(gang(2, 2), step=0)
    attempt = 0
    for hold_at in phases:
        cluster.control.hold(hold_at)
        for number in numbers:
            attempt += 1
            wait_until(lambda n=attempt: job.refresh().attempt == n, f"attempt {attempt} starts")
            ranks = [cluster.rank(job, one) for one in range(4)]
            if hold_at:
                cluster.wait_past_checkpoint(job)
            ranks[number].kill()
            cluster.start_next_attempt(job)
            assert all(map(has_ended, ranks)), f"rank {number} was killed"
            ended = job.attempts()[attempt - 1]
            assert (ended.outcome, ended.reason) == ("failed", "process_killed"), ended.message
    job = cluster.finish(job)
    assert_equals_reference(job, scripted_reference())
    assert job.attempts()[-1].first_step, "it restarted at step 0"
    assert [rank.state for rank in job.attempts()[-1].ranks] == ["succeeded"] * 4


@pytest.mark.parametrize("number", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_the_worker_of_a_rank_is_killed(cluster: Cluster, number: int) -> None:
    """Mechanism: the lease of each worker of an attempt ends the attempt.

    Checked: without `has_expired_ranks` in store/jobs/lease_expiry.py the attempt of a killed
    worker of rank 1 never ends.
    """
    workers = cluster.ensure_workers(3, SCRIPTED)
    job = cluster.submit_paused_at(gang(2))
    cluster.wait_past_checkpoint(job)
    ranks = [cluster.rank(job, one) for one in range(2)]
    killed = cluster.worker_of_rank(job, number)
    killed.kill()
    cluster.expire_member(job, killed)
    cluster.start_next_attempt(job)
    wait_until(lambda: job.refresh().attempt == 2, "the next attempt starts")
    wait_until(lambda: all(map(has_ended, ranks)), "the first ranks have ended")
    assert {cluster.worker_of_rank(job, one).name for one in range(2)} == {
        worker.name for worker in workers if worker is not killed
    }
    job = cluster.finish(job)
    assert_equals_reference(job, scripted_reference())
    assert outcomes(job) == [("lost", "worker_lost"), ("succeeded", None)]
    assert job.attempts()[1].first_step, "it restarted at step 0"


def test_a_suspended_worker_loses_its_ranks_to_the_next_attempt(cluster: Cluster) -> None:
    """Mechanism: a worker whose lease has expired ends its ranks as soon as it renews it.

    Checked: without `_attempt_is_active` in store/gangs/gang_members.py its rank goes on.
    """
    cluster.ensure_workers(3, SCRIPTED)
    job = cluster.submit_paused_at(gang(2))
    wait_until(lambda: reached(job, HOLD_STEP), "the job runs")
    worker, rank = cluster.worker_of_rank(job, 1), cluster.rank(job, 1)
    worker.suspend()
    rank.suspend()
    cluster.expire_member(job, worker)
    cluster.start_next_attempt(job)
    wait_until(lambda: job.refresh().attempt == 2, "the next attempt starts")
    worker.resume()
    rank.resume()
    wait_until(lambda: has_ended(rank), "the fenced rank has ended")
    job = cluster.finish(job)
    assert_equals_reference(job, scripted_reference())
    assert outcomes(job) == [("lost", "worker_lost"), ("succeeded", None)]


def test_a_gang_is_paused_resumed_and_drained(cluster: Cluster) -> None:
    """Mechanisms: a pause stops all ranks at one step; any worker that drains hands the gang back.

    Checked: if worker/gangs/follower_ranks.py sends no stop request, the drained worker never ends.
    """
    cluster.ensure_workers(3, SCRIPTED)
    job = cluster.submit_paused_at(gang(2))
    wait_until(lambda: reached(job, HOLD_STEP), "the job runs")
    ranks = [cluster.rank(job, one) for one in range(2)]
    job.pause()
    wait_until(lambda: job.refresh().state == State.PAUSED, "it is paused")
    assert all(map(has_ended, ranks))
    job.refresh().resume()
    wait_until(lambda: job.refresh().attempt == 2, "it is resumed")
    drained = cluster.worker_of_rank(job, 1)
    cluster.client.workers.drain(cluster.registered(drained).id)
    assert drained.wait() == 0, drained.log
    job = cluster.finish(job)
    assert_equals_reference(job, scripted_reference())
    assert [outcome for outcome, _ in outcomes(job)] == ["paused", "requeued", "succeeded"]
    assert states(job)[-1] == "succeeded"


def test_two_gangs_that_need_all_slots_run_one_after_the_other(cluster: Cluster) -> None:
    """Mechanism: all slots of a gang are reserved in one transaction.

    Each gang would hold half of the slots for ever if it took them one by one.
    """
    cluster.ensure_workers(2, SCRIPTED)
    cluster.control.hold(0)
    jobs = [cluster.client.jobs.submit(gang(2)) for _ in range(2)]
    plain = [cluster.client.jobs.submit(TINY) for _ in range(4)]
    wait_until(lambda: any(job.refresh().attempt for job in (*jobs, *plain)), "one starts")
    cluster.control.release()
    ended = cluster.client.jobs.wait([*jobs, *plain], timeout_s=DEADLINE_S)
    assert [job.state for job in ended] == [State.SUCCEEDED] * 6
    assert [outcomes(job) for job in jobs] == [[("succeeded", None)]] * 2


def test_a_waiting_gang_says_what_it_waits_for(cluster: Cluster) -> None:
    cluster.ensure_workers(2, SCRIPTED)
    held = cluster.submit_paused_at(TINY, step=0)
    wait_until(lambda: held.refresh().attempt, "a job takes a slot")
    job = cluster.client.jobs.submit(gang(2))
    waiting = "It waits for 2 slots, 1 on each of 2 workers: 1 of 2 slots are free."
    wait_until(
        lambda: job.refresh().waiting == waiting, waiting, show=lambda: job.refresh().waiting
    )
    cluster.finish(held)
    assert job.wait(timeout_s=DEADLINE_S).state == State.SUCCEEDED


@pytest.mark.slow
def test_a_gang_with_a_suspended_rank_is_cancelled(cluster: Cluster) -> None:
    """Mechanism: `cancelled` is recorded when all ranks have ended.

    Checked: if `conclude` of worker/gangs/gang_leader.py does not wait, the suspended rank outlives
    the job.
    """
    cluster.ensure_workers(2, SCRIPTED, **UNISOLATED)
    job = cluster.submit_paused_at(gang(2))
    ranks = [cluster.rank(job, one) for one in range(2)]
    ranks[1].suspend()
    job.cancel()
    wait_until(lambda: job.refresh().state == State.CANCELLED, "it is cancelled")
    assert all(map(has_ended, ranks))


def test_a_suspended_rank_is_lost_and_the_others_end(cluster: Cluster) -> None:
    """Mechanism: a rank that does not answer is lost after the timeout of the cluster.

    Checked: if worker/gangs/follower_ranks.py does not kill after the grace period, the rank stays.
    """
    cluster.ensure_workers(2, SCRIPTED, **UNISOLATED)
    job = cluster.submit_paused_at(gang(2))
    wait_until(lambda: reached(job, HOLD_STEP), "the job runs")
    ranks = [cluster.rank(job, one) for one in range(2)]
    ranks[1].send_signal(signal.SIGSTOP)
    cluster.control.release()
    cluster.control.end_exchange(attempt=1)
    cluster.start_next_attempt(job)
    assert all(map(has_ended, ranks))
    job = cluster.finish(job)
    assert outcomes(job) == [("failed", "rank_lost"), ("succeeded", None)]
    assert_equals_reference(job, scripted_reference())


def test_a_rank_without_network_ends_the_attempt_and_the_next_one_resumes(
    cluster: Cluster,
) -> None:
    """Mechanism: as for a suspended rank; the network between the ranks drops all packets.

    Checked: if the test does not block the proxy, the job has one attempt.
    """
    cluster.ensure_workers(2, SCRIPTED, **UNISOLATED)

    def connect_to_rank_0() -> socket.socket | None:
        [address, *_] = cluster.members(job)[0].addresses or []
        host, _, port = address.rpartition(":")
        with suppress(ConnectionRefusedError):  # rank 1 was faster: rank 0 does not listen yet
            return socket.create_connection((host, int(port)), DEADLINE_S)
        return None

    proxy = Proxy(lambda: wait_until(connect_to_rank_0, "rank 0 listens"))
    cluster.control.use_rank_proxy(proxy.port)
    try:
        job = cluster.submit_paused_at(gang(2))
        wait_until(lambda: reached(job, HOLD_STEP), "the job runs")
        ranks = [cluster.rank(job, one) for one in range(2)]
        proxy.block()
        cluster.control.release()
        cluster.control.end_exchange(attempt=1)
        wait_until(lambda: job.refresh().state == State.QUEUED, "the job is queued again")
        assert all(map(has_ended, ranks))
        proxy.restore()
        cluster.start_next_attempt(job)
        job = cluster.finish(job)
        assert outcomes(job) == [("failed", "rank_lost"), ("succeeded", None)]
    finally:
        proxy.close()
    assert_equals_reference(job, scripted_reference())


def test_ranks_of_a_stack_that_ends_leave_no_process(cluster: Cluster) -> None:
    """Mechanism: ranks die with their worker.

    Checked: the fixture's reset fails for a process that is left.
    """
    workers = cluster.ensure_workers(2, SCRIPTED, **UNISOLATED)
    job = cluster.submit_paused_at(gang(2))
    ranks = [cluster.rank(job, one) for one in range(2)]
    for worker in workers:
        with suppress(psutil.NoSuchProcess):
            worker.kill()
    wait_until(lambda: all(map(has_ended, ranks)), "the ranks have ended with their workers")
    for worker in workers:
        cluster.expire_member(job, worker)
    cluster.start_next_attempt(job)
