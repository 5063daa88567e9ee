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
    study = api.client.studies.precision(SPEC, seeds=SEEDS, policies=["mixed_float16"])
    for ended in (1, 3):
        api.kill()
        api.start()
        api.wait_ready()
        wait_until(
            lambda least=ended: api.client.studies.get(study).jobs_ended >= least,
            "the study goes on",
        )
    found = api.client.studies.wait(study, timeout_s=DEADLINE_S)
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


def test_a_search_whose_api_is_killed_extends_each_promoted_job_once(cluster: Cluster) -> None:
    """Mechanism: the next runs follow from the entries of the study alone.

    The accuracy grows with the seed, which stands for a hyper-parameter.
    """
    cluster.ensure_workers(1, SCRIPTED)
    [api] = cluster.apis
    api.client.projects.update("default", max_queued=1, max_running=None)
    spec = {**SPEC, "train": {"steps": 27, "checkpoint_every_s": 1e-6}, "name": "searched"}
    study = api.client.studies.search(
        spec,
        {"train.seed": [3, 1, 6, 2, 5, 4]},
        method="grid",
        asha={"min_steps": 3, "reduction_factor": 3},
    )
    for ended in (1, 5):
        api.kill()
        api.start()
        api.wait_ready()
        wait_until(
            lambda least=ended: api.client.studies.get(study).jobs_ended >= least,
            "the search goes on",
        )
    found = api.client.studies.wait(study, timeout_s=DEADLINE_S)
    api.client.projects.update("default", max_queued=None, max_running=None)
    assert (found.state, found.message) == ("succeeded", None)
    assert found.answer is not None
    best = found.answer.runs[found.answer.best - 1]
    assert (best.values, best.steps) == ({"train.seed": 6}, 27)
    pieces = [api.client.jobs.get(job) for job in best.jobs]
    assert [one.extends for one in pieces] == [None, *best.jobs[:-1]]
    trained = [int(step) for one in pieces for step in one.steps()["step"]]
    assert trained == list(range(27))
    assert {run.state for run in found.answer.runs} == {"finished", "stopped"}
    assert (
        len({one.job for one in found.jobs})
        == len(found.jobs)
        == sum(len(run.jobs) for run in found.answer.runs)
    )
