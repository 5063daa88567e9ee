import random
import threading
from contextlib import suppress
from dataclasses import replace

from sqlalchemy import func, select

from ampspec.jobs import State
from store.access import projects
from store.files import artifact_quota, artifacts
from store.files.artifact_quota import ArtifactQuotaReached
from store.files.artifacts import CHECKPOINT, REPORT, StoredArtifact
from store.jobs import attempts, jobs
from store.tables import Artifact, Job

FILE = StoredArtifact("checkpoint", CHECKPOINT, 10, size_bytes=5, sha256="a" * 64)


def sums(database):
    """The bytes of each project as its rows say, and as its counter does."""
    statement = select(Job.project, func.sum(Artifact.size_bytes)).join(Artifact)
    with database.read() as session:
        rows = dict(session.execute(statement.group_by(Job.project)).all())
        counters = artifact_quota.stored_bytes(session)
    return rows, {project: size for project, size in counters.items() if size}


def test_the_counter_is_the_sum_of_the_rows(database, in_transaction, make_job):
    """After random writes, replacements, deletions of files and of jobs, and rollbacks."""
    choose = random.Random(7)
    ids = [make_job(State.RUNNING, project=f"p{number % 2}").id for number in range(6)]
    for step in range(80):
        job_id = choose.choice(ids)
        path = f"file {choose.randrange(4)}"
        match choose.randrange(8):
            case 0:
                in_transaction(artifacts.forget, job_id, [path, "file 0"])
            case 1 if step > 60:
                in_transaction(attempts.mark_succeeded, job_id, 1, {})
                assert in_transaction(jobs.delete_job, job_id) in (True, False)
            case 2:
                with suppress(ZeroDivisionError), database.write() as session:
                    artifacts.add(session, job_id, 1, replace(FILE, path=path, size_bytes=99))
                    raise ZeroDivisionError
            case _:
                file = replace(FILE, path=path, size_bytes=choose.randrange(1000))
                in_transaction(artifacts.add, job_id, 1, file)
    rows, counters = sums(database)
    assert set(rows) == {"p0", "p1"}
    assert counters == rows


def test_two_jobs_that_store_at_once_do_not_exceed_the_quota(database, in_transaction, make_job):
    ids = [make_job(State.RUNNING).id for _ in range(4)]
    in_transaction(projects.update, "default", {"max_artifact_bytes": 12})
    refused = []

    def store(job_id):
        try:
            in_transaction(artifacts.add, job_id, 1, FILE)
        except ArtifactQuotaReached as error:
            refused.append(str(error))

    threads = [threading.Thread(target=store, args=[job_id]) for job_id in ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 2
    assert sums(database) == ({"default": 10}, {"default": 10})
    assert "quota of 12 bytes" in refused[0]
    in_transaction(artifacts.add, ids[0], 1, replace(FILE, path="report", kind=REPORT))
    assert sums(database)[1] == {"default": 15}
