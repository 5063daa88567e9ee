"""Jobs that need an installed package are claimed by workers that have it."""

import pytest

from store import workers
from store.jobs import attempts, jobs
from store.listing import waiting_reason

MODEL = {"kind": "package", "package": "custom-package", "name": "two_towers"}


def register(session, worker_id, *queues):
    workers.register(
        session, worker_id, hostname="a", pid=1, slots=1, version="1", queues=list(queues)
    )


@pytest.mark.parametrize(
    ("runtime", "expected"),
    [
        ({}, "default/custom-package"),
        ({"device": "gpu"}, "gpu/custom-package"),
        ({"queue": "night"}, "night/custom-package"),
    ],
)
def test_a_job_for_a_package_has_a_queue_of_its_own(make_job, runtime, expected):
    assert make_job(model=MODEL, runtime=runtime).queue == expected


@pytest.mark.parametrize(
    "parts", [{"data": MODEL}, {"task": {"kind": "classification", "loss": MODEL}}]
)
def test_a_job_whose_data_or_loss_is_of_a_package_has_the_queue_of_the_package(make_job, parts):
    assert make_job(**parts).queue == "default/custom-package"


def test_only_a_worker_that_has_the_package_claims_the_job(in_transaction, make_job):
    job = make_job(model=MODEL)
    assert in_transaction(attempts.claim_next, "a", ("default",)) is None
    claimed = in_transaction(attempts.claim_next, "b", ("default", "default/custom-package"))
    assert claimed.id == job.id


def test_a_job_that_no_worker_can_build_waits_with_a_sentence_that_says_so(database, make_job):
    job = make_job(model=MODEL)
    with database.write() as session:
        register(session, "a", "default")
    with database.autocommit() as connection:
        [row] = connection.execute(jobs.Job.__table__.select().where(jobs.Job.id == job.id))
        sentences = waiting_reason.why_waiting(connection, [row])
    assert sentences == {
        job.id: "No online worker of the queue 'default' has the package 'custom-package'; "
        "install it there and restart the worker."
    }


def test_the_packages_of_online_workers_are_listed(database):
    with database.write() as session:
        for name in ("a", "b", "gone"):
            register(session, name, "default")
        workers.heartbeat(session, "a", hardware={"packages": [{"package": "custom-package"}, 3]})
        workers.heartbeat(session, "gone", hardware={"packages": [{"package": "custom-package"}]})
        workers.stopped(session, "gone")
        packages = workers.online_packages(session)
    assert packages == {"a": [{"package": "custom-package"}]}
