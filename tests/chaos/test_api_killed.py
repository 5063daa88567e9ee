"""The API dies at the worst moments; another one, or the same again, makes up for it."""

import threading
from contextlib import suppress
from typing import Any

import httpx
import redis
from sqlalchemy import select

from ampclient import Job, LogEntry
from ampcore.spec import State
from store import tables
from tests.chaos import groups
from tests.chaos.cluster import SCRIPTED, Cluster
from tests.chaos.members import CALM_ENDS, Api
from tests.chaos.runs import HELD_AT, SPEC, STEPS, TINY, outcomes
from tests.waiting import DEADLINE_S, join, wait_until

pytestmark = groups.SCRIPTED


def test_a_job_whose_api_died_between_commit_and_message_runs_all_the_same(
    cluster: Cluster,
) -> None:
    """The guard: the reconciler sends what was never sent.

    Checked: without `resend` in server/reconcile.py the job waits for ever.
    """
    cluster.crew(1, SCRIPTED)
    [api] = cluster.apis
    name = "committed, never sent"
    cluster.api_ways.redis.block()
    post = threading.Thread(target=submit, args=[api, {**TINY, "name": name}])
    post.start()
    job_id = wait_until(lambda: find(cluster, name), "the job is committed")
    api.kill()
    join(post)
    with redis.Redis.from_url(cluster.redis.url) as connection:
        assert connection.llen("ampcore.cpu") == 0, "the message was sent after all"
    cluster.api_ways.redis.restore()
    api.start()
    api.wait_ready()
    job = api.client.jobs.get(job_id).wait(timeout=DEADLINE_S)
    assert (job.state, job.attempt) == (State.SUCCEEDED, 1)


def test_who_follows_a_job_gets_each_step_and_line_once_across_restarts(cluster: Cluster) -> None:
    """The guard: whoever reads goes on behind the last `seq` or step that came.

    Checked: where ampclient/logs.py forgets the last `seq`, lines come twice.
    """
    cluster.crew(1, SCRIPTED)
    [api] = cluster.apis
    job = cluster.submit_held(SPEC)
    steps: list[int] = []
    lines: list[LogEntry] = []
    followers = [
        threading.Thread(target=follow_steps, args=[job, steps]),
        threading.Thread(target=follow_logs, args=[job, lines]),
    ]
    for follower in followers:
        follower.start()
    wait_until(lambda: len(steps) == HELD_AT, "steps are followed")
    api.kill()
    api.start()
    api.wait_ready()
    cluster.control.hold(STEPS)
    wait_until(lambda: len(steps) == STEPS, "the steps go on")
    assert api.stop() in CALM_ENDS, "with streams open"
    api.start()
    api.wait_ready()
    cluster.control.release()
    join(*followers)
    assert steps == list(range(STEPS))
    assert lines == list(job.logs())
    assert lines


def test_two_apis_reconcile_and_do_everything_once(cluster: Cluster) -> None:
    """The guard: both reconcile, and each change of theirs is a compare-and-set.

    Checked: without `resend` the jobs wait for ever. Who wins a single race of the two depends on
    chance; tests/store holds those one by one.
    """
    cluster.crew(2, SCRIPTED)
    cluster.api()
    cluster.api_ways.redis.cut()  # no message leaves; both servers find the jobs unsent
    jobs = [cluster.client.jobs.submit(TINY) for _ in range(2)]
    cluster.api_ways.redis.restore()
    ended = cluster.client.jobs.wait(jobs, timeout=DEADLINE_S)
    assert [(job.state, job.attempt) for job in ended] == [(State.SUCCEEDED, 1)] * 2
    lost = cluster.submit_held(SPEC)
    cluster.past_a_checkpoint(lost).kill()
    cluster.lapse(lost)
    lost = cluster.finish(lost)
    assert outcomes(lost) == [("lost", "worker_lost"), ("succeeded", None)]
    assert lost.steps()["step"].tolist() == list(range(STEPS))


def submit(api: Api, spec: dict[str, Any]) -> None:
    with suppress(httpx.TransportError):  # it is killed before it can answer
        api.http.post("/api/v1/jobs", json=spec)


def find(cluster: Cluster, name: str) -> str | None:
    with cluster.database.read() as session:
        return session.scalar(select(tables.Job.id).where(tables.Job.name == name))


def follow_steps(job: Job, steps: list[int]) -> None:
    for block in job.follow_steps(poll_s=0.05):
        steps += block["step"].tolist()


def follow_logs(job: Job, lines: list[LogEntry]) -> None:
    lines += job.logs(follow=True)
