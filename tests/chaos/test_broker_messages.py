"""Messages are duplicated, late or lost; Redis is killed and restarts empty."""

import os
import signal
from collections.abc import Iterator

import pytest

from ampspec.jobs import State
from server.dispatch import CeleryDispatcher
from tests.chaos import xdist_groups
from tests.chaos.cluster import SCRIPTED, Cluster
from tests.chaos.reference_run import (
    BLOCK_STEPS,
    HOLD_STEP,
    SPEC,
    TINY,
    assert_equals_reference,
    reached,
    scripted_reference,
    states,
)
from tests.waiting import DEADLINE_S, wait_until

pytestmark = [xdist_groups.SCRIPTED, pytest.mark.quick]

QUEUE = "cpu"


@pytest.fixture
def dispatcher(cluster: Cluster) -> Iterator[CeleryDispatcher]:
    """Sends messages as the API does."""
    dispatcher = CeleryDispatcher(cluster.redis.url)
    yield dispatcher
    dispatcher.close()


def test_duplicate_messages_run_a_job_once(cluster: Cluster, dispatcher: CeleryDispatcher) -> None:
    """Mechanism: a claim is a compare-and-set on a queued job.

    Checked: without the states in store.jobs.state_transitions.change_state and
    store.jobs.attempts.claim_next the jobs run again and again.
    """
    cluster.ensure_workers(2, SCRIPTED)
    jobs = [cluster.client.jobs.submit(TINY) for _ in range(2)]
    for _ in range(10):
        for job in jobs:
            dispatcher.send(job.id, QUEUE)
    jobs = cluster.client.jobs.wait(jobs, timeout_s=DEADLINE_S)
    late = jobs[0]
    for _ in range(10):
        dispatcher.send(late.id, QUEUE)
    wait_until(lambda: dispatcher.pending_messages(QUEUE) == 0, "every message is taken")
    for job in [job.refresh() for job in jobs]:
        assert (job.state, job.attempt) == (State.SUCCEEDED, 1)
        assert states(job) == ["queued", "starting", "running", "succeeded"]
        assert job.steps()["step"].tolist() == list(range(10))


def test_a_killed_and_emptied_redis_loses_no_job(
    cluster: Cluster, dispatcher: CeleryDispatcher
) -> None:
    """Mechanism: the worker reconnects for as long as it takes, and its jobs continue.

    Checked: with `broker_connection_retry=False` in worker/app.py the worker exits.
    """
    [worker] = cluster.ensure_workers(1, SCRIPTED)
    job = cluster.submit_paused_at(SPEC)
    wait_until(lambda: reached(job, HOLD_STEP), "the job runs")
    queued = cluster.client.jobs.submit(TINY)
    os.kill(cluster.redis.pid, signal.SIGKILL)
    wait_until(lambda: not cluster.redis.running, "Redis is gone")
    cluster.train_to_step(job, HOLD_STEP + 2 * BLOCK_STEPS)  # the running job does not need Redis
    cluster.redis.start()
    assert_equals_reference(cluster.finish(job), scripted_reference())
    ended = [queued.wait(timeout_s=DEADLINE_S)]
    # The queue is empty: from here on the worker runs only jobs that a message announces.
    ended.append(cluster.client.jobs.submit(TINY).wait(timeout_s=DEADLINE_S))
    assert [(job.state, job.attempt) for job in ended] == [(State.SUCCEEDED, 1)] * 2
    assert job.refresh().attempt == 1
    assert worker.running
