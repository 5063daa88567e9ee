"""`GET /jobs/{id}/allocations`: what a batch system was asked for."""

from datetime import UTC, datetime

import pytest

from store.tables import Allocation

START = datetime(2030, 1, 2, 14, 30, tzinfo=UTC)


@pytest.fixture
def add_allocation(api):
    """Add the allocation of this number for the first attempt at a job."""

    def add(job, number, **values):
        row = Allocation(
            name=f"ampcore-{job.id}-1-{number}",
            job_id=job.id,
            attempt=1,
            number=number,
            queue="batch",
            engine="slurm",
            created_at=datetime(2030, 1, 1, number, tzinfo=UTC),
            **values,
        )
        with api.database.write() as session:
            session.add(row)

    return add


def test_every_allocation_of_the_job_is_listed_oldest_first(api, make_job, add_allocation):
    job, other_job = make_job(), make_job()
    add_allocation(
        job, 2, state="PENDING", reason="Resources", external_id="4711", expected_start_at=START
    )
    ended = {"ended_at": START, "worker_message": "It needs a package."}
    add_allocation(job, 1, state="REFUSED", reason="Invalid account.", **ended)
    add_allocation(other_job, 1, state="RUNNING", external_id="4712", nodes="n[1-2]")

    def listed(job):
        return api.client.get(f"/api/v1/jobs/{job.id}/allocations").json()["items"]

    first, second = listed(job)
    assert first == {
        "name": f"ampcore-{job.id}-1-1",
        "attempt": 1,
        "number": 1,
        "engine": "slurm",
        "external_id": None,
        "state": "REFUSED",
        "reason": "Invalid account.",
        "worker_message": "It needs a package.",
        "nodes": None,
        "expected_start_at": None,
        "created_at": "2030-01-01T01:00:00Z",
        "ended_at": "2030-01-02T14:30:00Z",
    }
    assert (second["number"], second["external_id"]) == (2, "4711")
    assert second["expected_start_at"] == "2030-01-02T14:30:00Z"
    assert second["ended_at"] is None
    assert [row["nodes"] for row in listed(other_job)] == ["n[1-2]"]


def test_a_job_that_no_batch_system_serves_has_no_allocations(api, make_job):
    path = f"/api/v1/jobs/{make_job().id}/allocations"
    assert api.client.get(path).json() == {"items": []}


def test_states_and_engines_of_a_newer_version_are_listed_as_they_are(
    api, make_job, add_allocation
):
    job = make_job()
    add_allocation(job, 1, state="STAGE_OUT")
    with api.database.write() as session:
        session.get(Allocation, f"ampcore-{job.id}-1-1").engine = "pbs"
    [row] = api.client.get(f"/api/v1/jobs/{job.id}/allocations").json()["items"]
    assert (row["engine"], row["state"]) == ("pbs", "STAGE_OUT")
