"""Cancel races success: whoever is first wins, and the other one hears of it."""

import random
import threading
import time
from collections import Counter

import pytest

from ampcore.spec import TERMINAL, JobSpec, State
from store import attempts, jobs
from tests.chaos.cluster import Cluster
from tests.chaos.runs import TINY, outcomes, states
from worker.endings import End, Outcome

pytestmark = pytest.mark.xdist_group("chaos-1")

RACES = 200
LONGEST_DELAY_S = 0.006
"""About what a cancel takes on its way, so that each side wins its share."""


def test_each_of_200_races_of_cancel_with_success_has_one_end(cluster: Cluster) -> None:
    """The guard: every change of state is a compare-and-set against the table of transitions.

    Checked: without the states in store.changes.change a job has two ends.
    """
    cluster.crew(0)
    chance = random.Random(4)
    ends = Counter(race(cluster, chance.uniform(0, LONGEST_DELAY_S)) for _ in range(RACES))
    assert set(ends) == {State.SUCCEEDED, State.CANCELLED}, f"it was no race: {ends}"


def race(cluster: Cluster, delay_s: float) -> str:
    """A cancel over HTTP against a worker's last word, on one running job; how it ended."""
    with cluster.database.write() as session:
        job_id = jobs.create(session, JobSpec.parse(TINY), jobs.Origin("default")).id
        assert attempts.claim(session, job_id, "racer") is not None
        attempts.mark_running(session, job_id, 1, total_steps=10, first_step=0)
    ready = threading.Barrier(2)

    def succeed() -> None:
        ready.wait()
        time.sleep(delay_s)  # moves the start, and nothing waits for it
        with cluster.database.write() as session:
            End(Outcome.SUCCEEDED, summary={}).write(session, job_id, 1)

    worker = threading.Thread(target=succeed)
    worker.start()
    ready.wait()
    answer = cluster.apis[0].http.post(f"/api/v1/jobs/{job_id}/cancel")
    worker.join()
    job = cluster.client.jobs.get(job_id)
    assert answer.status_code == (202 if job.state == State.CANCELLED else 409)
    assert [state for state in states(job) if state in TERMINAL] == [job.state]
    assert [outcome for outcome, _ in outcomes(job)] == [job.state]
    return job.state
