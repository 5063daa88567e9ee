"""A cancel races a success: the first one wins, and the other one is refused."""

import random
import threading
import time
from collections import Counter

import pytest

from ampspec.jobs import TERMINAL, JobSpec, State
from store.jobs import attempts, jobs
from tests.chaos import xdist_groups
from tests.chaos.cluster import Cluster
from tests.chaos.reference_run import TINY, outcomes, states
from tests.waiting import join
from worker.attempt.outcome import AttemptOutcome, AttemptResult

pytestmark = [xdist_groups.SCRIPTED, pytest.mark.quick]

RACES = 200
FIRST_DELAY_S = 0.003
STEP = 1.3


def test_each_of_200_races_of_cancel_and_success_has_one_outcome(cluster: Cluster) -> None:
    """Mechanism: every change of state is a compare-and-set against the table of transitions.

    Checked: without the states in store.jobs.state_transitions.change_state a job has two outcomes.
    """
    cluster.ensure_workers(0)
    generator = random.Random(4)
    ends: Counter[str] = Counter()
    delay_s = FIRST_DELAY_S
    for _ in range(RACES):
        end = race(cluster, generator.uniform(0.5, 1.5) * delay_s)
        # The winner starts later the next time, so that both sides win on any machine.
        delay_s *= STEP if end == State.SUCCEEDED else 1 / STEP
        ends[end] += 1
    assert set(ends) == {State.SUCCEEDED, State.CANCELLED}, f"it was no race: {ends}"


def race(cluster: Cluster, delay_s: float) -> str:
    """Race a cancel over HTTP against a recorded success of one running job; returns the state."""
    with cluster.database.write() as session:
        job_id = jobs.create(session, JobSpec.parse(TINY), jobs.Origin("default")).id
        assert attempts.claim(session, job_id, "racer") is not None
        attempts.mark_running(session, job_id, 1, total_steps=10, first_step=0)
    ready = threading.Barrier(2)

    def succeed() -> None:
        ready.wait()
        time.sleep(delay_s)  # shifts the start; nothing waits for it
        with cluster.database.write() as session:
            AttemptResult(AttemptOutcome.SUCCEEDED, summary={}).write(session, job_id, 1)

    worker = threading.Thread(target=succeed)
    worker.start()
    ready.wait()
    response = cluster.apis[0].http.post(f"/api/v1/jobs/{job_id}/cancel")
    join(worker)
    job = cluster.client.jobs.get(job_id)
    assert response.status_code == (202 if job.state == State.CANCELLED else 409)
    assert [state for state in states(job) if state in TERMINAL] == [job.state]
    assert [outcome for outcome, _ in outcomes(job)] == [job.state]
    return job.state
