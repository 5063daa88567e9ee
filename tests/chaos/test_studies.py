"""The API is killed while a study runs; another one continues it."""

from sqlalchemy import select

from store.tables import Job
from tests.chaos import xdist_groups
from tests.chaos.cluster import SCRIPTED, Cluster
from tests.chaos.reference_run import TINY
from tests.waiting import DEADLINE_S, wait_until

pytestmark = xdist_groups.SCRIPTED

SEEDS = 3
SPEC = {**TINY, "labels": {"script": "train_to_accuracy"}, "name": "asked again and again"}


def test_a_study_whose_api_is_killed_again_and_again_has_each_job_once(cluster: Cluster) -> None:
    """Mechanism: a job and the row that names it are written in one transaction.

    The queue has room for one job, so that the study queues them one after the other. Checked:
    with a commit between `create_jobs` and `set_job` in server/studies/progress.py a job that a
    kill separated from its row is queued again.
    """
    cluster.ensure_workers(1, SCRIPTED)
    [api] = cluster.apis
    api.client.projects.update("default", max_queued=1, max_running=None)
    study = api.client.lab.precision(SPEC, seeds=SEEDS, policies=["mixed_float16"])
    for ended in (1, 3):
        api.kill()
        api.start()
        api.wait_ready()
        wait_until(
            lambda least=ended: api.client.lab.get(study).jobs_ended >= least, "the study goes on"
        )
    found = api.client.lab.wait(study, timeout=DEADLINE_S)
    api.client.projects.update("default", max_queued=None, max_running=None)
    assert (found.state, found.message) == ("succeeded", None)
    keys = {f"{policy}/seed-{n}" for policy in ("float32", "mixed_float16")
            for n in range(SEEDS)}  # fmt: skip
    assert {one.key for one in found.jobs} == keys
    with cluster.database.read() as session:
        rows = session.execute(select(Job.id, Job.labels, Job.attempt)).all()
    queued = {row.id: row for row in rows if row.labels.get("study") == study.id}
    assert sorted(queued) == sorted(str(one.job) for one in found.jobs)
    assert {row.labels["study_job"] for row in queued.values()} == keys
    assert {row.attempt for row in queued.values()} == {1}
    assert found.answer is not None
    [_, other] = found.answer.policies
    assert (other.verdict, other.difference) == ("equal", 0.0)
