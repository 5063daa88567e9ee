"""Messages come twice, late, or never; Redis itself goes and comes back empty."""

import os
import signal
from collections.abc import Iterator

import pytest

from ampcore.spec import State
from server.wake import CeleryWake
from tests.chaos import groups
from tests.chaos.cluster import SCRIPTED, Cluster
from tests.chaos.runs import (
    BLOCK,
    HELD_AT,
    SPEC,
    TINY,
    assert_undisturbed,
    reached,
    scripted,
    states,
)
from tests.waiting import DEADLINE_S, wait_until

pytestmark = groups.SCRIPTED

QUEUE = "cpu"


@pytest.fixture
def bell(cluster: Cluster) -> Iterator[CeleryWake]:
    """A way to send messages as the API does."""
    bell = CeleryWake(cluster.redis.url)
    yield bell
    bell.close()


def test_one_message_many_times_is_one_run(cluster: Cluster, bell: CeleryWake) -> None:
    """The guard: a claim is a compare-and-set on a queued job.

    Checked: without the states in store.changes.change and store.attempts.claim_next the jobs run
    again and again.
    """
    cluster.crew(2, SCRIPTED)
    jobs = [cluster.client.jobs.submit(TINY) for _ in range(2)]
    for _ in range(10):
        for job in jobs:
            bell.send(job.id, QUEUE)
    jobs = cluster.client.jobs.wait(jobs, timeout=DEADLINE_S)
    late = jobs[0]
    for _ in range(10):
        bell.send(late.id, QUEUE)
    wait_until(lambda: bell.waiting(QUEUE) == 0, "every message is taken")
    for job in [job.refresh() for job in jobs]:
        assert (job.state, job.attempt) == (State.SUCCEEDED, 1)
        assert states(job) == ["queued", "starting", "running", "succeeded"]
        assert job.steps()["step"].tolist() == list(range(10))


def test_redis_killed_and_empty_again_costs_neither_running_nor_queued_jobs(
    cluster: Cluster, bell: CeleryWake
) -> None:
    """The guard: the worker connects again for as long as it takes, and its jobs go on.

    Checked: with `broker_connection_retry=False` in worker/app.py the worker ends.
    """
    [worker] = cluster.crew(1, SCRIPTED)
    job = cluster.submit_held(SPEC)
    wait_until(lambda: reached(job, HELD_AT), "the job runs")
    queued = cluster.client.jobs.submit(TINY)
    os.kill(cluster.redis.pid, signal.SIGKILL)
    wait_until(lambda: not cluster.redis.running, "Redis is gone")
    cluster.train_to(job, HELD_AT + 2 * BLOCK)  # the running job never notices
    cluster.redis.start()
    assert_undisturbed(cluster.finish(job), scripted())
    ended = [queued.wait(timeout=DEADLINE_S)]
    # Nothing waits any more: from here on the worker runs what it hears of, and only that.
    ended.append(cluster.client.jobs.submit(TINY).wait(timeout=DEADLINE_S))
    assert [(job.state, job.attempt) for job in ended] == [(State.SUCCEEDED, 1)] * 2
    assert job.refresh().attempt == 1
    assert worker.running
