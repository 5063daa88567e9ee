"""The API is killed; another one, or the same one after a restart, continues its work."""

import threading
from contextlib import suppress
from typing import Any

import httpx
import pytest
import redis
from sqlalchemy import select

from ampclient import Job, LogEntry
from ampspec.jobs import State
from store import tables
from tests.chaos import xdist_groups
from tests.chaos.cluster import SCRIPTED, Cluster
from tests.chaos.reference_run import HOLD_STEP, SPEC, TINY, TOTAL_STEPS, outcomes
from tests.chaos.service_processes import CLEAN_EXIT_CODES, Api
from tests.waiting import DEADLINE_S, join, wait_until

pytestmark = [xdist_groups.SCRIPTED, pytest.mark.quick]


def test_a_job_runs_although_its_api_died_between_commit_and_message(
    cluster: Cluster,
) -> None:
    """Mechanism: the reconciler sends messages that were never sent.

    Checked: without `redispatch` in server/background/reconciler.py the job stays queued.
    """
    cluster.ensure_workers(1, SCRIPTED)
    [api] = cluster.apis
    name = "committed, never sent"
    cluster.api_proxies.redis.block()
    post = threading.Thread(target=submit, args=[api, {**TINY, "name": name}])
    post.start()
    job_id = wait_until(lambda: find(cluster, name), "the job is committed")
    api.kill()
    join(post)
    with redis.Redis.from_url(cluster.redis.url) as connection:
        assert connection.llen("ampcore.cpu") == 0, "the message was sent"
    cluster.api_proxies.redis.restore()
    api.start()
    api.wait_ready()
    job = api.client.jobs.get(job_id).wait(timeout_s=DEADLINE_S)
    assert (job.state, job.attempt) == (State.SUCCEEDED, 1)


def test_following_a_job_across_api_restarts_gives_each_step_and_line_once(
    cluster: Cluster,
) -> None:
    """Mechanism: a client continues after the last `seq` or step that it received.

    Checked: if ampclient/logs.py forgets the last `seq`, lines arrive twice.
    """
    cluster.ensure_workers(1, SCRIPTED)
    [api] = cluster.apis
    job = cluster.submit_paused_at(SPEC)
    steps: list[int] = []
    lines: list[LogEntry] = []
    followers = [
        threading.Thread(target=follow_steps, args=[job, steps]),
        threading.Thread(target=follow_logs, args=[job, lines]),
    ]
    for follower in followers:
        follower.start()
    wait_until(lambda: len(steps) == HOLD_STEP, "steps are followed")
    api.kill()
    api.start()
    api.wait_ready()
    cluster.control.hold(TOTAL_STEPS)
    wait_until(lambda: len(steps) == TOTAL_STEPS, "the remaining steps arrive")
    assert api.stop() in CLEAN_EXIT_CODES, "with streams open"
    api.start()
    api.wait_ready()
    cluster.control.release()
    join(*followers)
    assert steps == list(range(TOTAL_STEPS))
    assert lines == list(job.logs())
    assert lines


def test_two_apis_that_reconcile_do_each_action_once(cluster: Cluster) -> None:
    """Mechanism: both reconcile, and each of their changes is a compare-and-set.

    Checked: without `redispatch` the jobs stay queued. Which server wins a race is random;
    tests/store tests each race by itself.
    """
    cluster.ensure_workers(2, SCRIPTED)
    cluster.api()
    cluster.api_proxies.redis.cut()  # no message is sent; both servers find the jobs
    jobs = [cluster.client.jobs.submit(TINY) for _ in range(2)]
    cluster.api_proxies.redis.restore()
    ended = cluster.client.jobs.wait(jobs, timeout_s=DEADLINE_S)
    assert [(job.state, job.attempt) for job in ended] == [(State.SUCCEEDED, 1)] * 2
    lost = cluster.submit_paused_at(SPEC)
    cluster.wait_past_checkpoint(lost).kill()
    cluster.expire_lease(lost)
    lost = cluster.finish(lost)
    assert outcomes(lost) == [("lost", "worker_lost"), ("succeeded", None)]
    assert lost.steps()["step"].tolist() == list(range(TOTAL_STEPS))


def submit(api: Api, spec: dict[str, Any]) -> None:
    with suppress(httpx.TransportError):  # it is killed before it responds
        api.http.post("/api/v1/jobs", json=spec)


def find(cluster: Cluster, name: str) -> str | None:
    with cluster.database.read() as session:
        return session.scalar(select(tables.Job.id).where(tables.Job.name == name))


def follow_steps(job: Job, steps: list[int]) -> None:
    for block in job.follow_steps(poll_s=0.05):
        steps += block["step"].tolist()


def follow_logs(job: Job, lines: list[LogEntry]) -> None:
    lines += job.logs(follow=True)
