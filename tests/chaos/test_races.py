"""Cancel races success: whoever is first wins, and the other one hears of it."""

import random
import threading
import time
from collections import Counter

from ampcore.spec import TERMINAL, JobSpec, State
from store import attempts, jobs
from tests.chaos import groups
from tests.chaos.cluster import Cluster
from tests.chaos.runs import TINY, outcomes, states
from tests.waiting import join
from worker.endings import End, Outcome

pytestmark = groups.SCRIPTED

RACES = 200
FIRST_DELAY_S = 0.003
STEP = 1.3


def test_each_of_200_races_of_cancel_with_success_has_one_end(cluster: Cluster) -> None:
    """The guard: every change of state is a compare-and-set against the table of transitions.

    Checked: without the states in store.changes.change a job has two ends.
    """
    cluster.crew(0)
    chance = random.Random(4)
    ends: Counter[str] = Counter()
    delay_s = FIRST_DELAY_S
    for _ in range(RACES):
        end = race(cluster, chance.uniform(0.5, 1.5) * delay_s)
        # Who has won begins later the next time: soon each side wins its share, on any machine.
        delay_s *= STEP if end == State.SUCCEEDED else 1 / STEP
        ends[end] += 1
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
    join(worker)
    job = cluster.client.jobs.get(job_id)
    assert answer.status_code == (202 if job.state == State.CANCELLED else 409)
    assert [state for state in states(job) if state in TERMINAL] == [job.state]
    assert [outcome for outcome, _ in outcomes(job)] == [job.state]
    return job.state
