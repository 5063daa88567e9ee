"""The allocations of a job on its page: what a batch system was asked for, and what it says."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import update

from ampspec.jobs import JobSpec
from store.database import Database
from store.jobs import jobs
from store.jobs.jobs import Origin
from store.tables import Allocation
from tests.e2e.dashboard.test_accessibility import (
    FITS_JS,
    PHONE,
    accessibility_violations,
    switch_to_light,
)

pytestmark = pytest.mark.xdist_group("dashboard")

QUEUE = "allocations-table"
"""A queue of its own: the worker of the stack takes no part."""
REFUSAL = "Batch job submission failed: Invalid account or account/partition combination specified"


@pytest.fixture
def database(stack: Any) -> Iterator[Database]:
    """The database of the stack."""
    database = Database(f"sqlite:///{stack.data / 'ampcore.sqlite'}")
    yield database
    database.close()


@pytest.fixture
def new_job(database: Database) -> Callable[[], str]:
    """Creates a job that no worker takes; returns its id."""

    def create() -> str:
        spec = {
            "name": "in Slurm",
            "model": {"kind": "mlp", "hidden": [8]},
            "data": {"kind": "digits", "batch_size": 8},
            "runtime": {"queue": QUEUE},
        }
        with database.write() as session:
            return str(jobs.create(session, JobSpec.parse(spec), Origin("default")).id)

    return create


@pytest.fixture
def job_id(database: Database, new_job: Callable[[], str]) -> Iterator[str]:
    """A job with an allocation that was refused, one whose node failed, and one that waits."""
    job_id = new_job()
    rows: tuple[dict[str, Any], ...] = (
        {"state": "REFUSED", "reason": REFUSAL, "ended_at": moment(9, 0)},
        {
            "state": "NODE_FAIL",
            "external_id": "4711",
            "nodes": "gpu[01-02,07]",
            "ended_at": moment(9, 20),
        },
        {
            "state": "PENDING",
            "external_id": "4712",
            "reason": "Resources",
            "expected_start_at": moment(14, 30),
        },
    )
    with database.write() as session:
        for number, values in enumerate(rows, start=1):
            fields = {"job_id": job_id, "attempt": 1, "number": number, "queue": QUEUE}
            name = f"ampcore-{job_id}-1-{number}"
            created_at = moment(8, 10 * number)
            row = {**fields, "engine": "slurm", "created_at": created_at, **values}
            session.add(Allocation(name=name, **row))
    yield job_id
    with database.write() as session:
        jobs.request_cancel(session, job_id)


def moment(hour: int, minute: int) -> datetime:
    return datetime(2030, 1, 2, hour, minute, tzinfo=UTC)


def test_the_page_lists_the_allocations_and_follows_them(
    open_signed_in: Callable[..., Page], database: Database, job_id: str
) -> None:
    page = open_signed_in(f"#/jobs/{job_id}?tab=attempts", scheme="dark")
    expect(page.get_by_role("heading", name="No attempts yet")).to_be_visible()
    table = page.get_by_role("table", name="Allocations")
    rows = table.get_by_role("row")
    expect(rows).to_have_count(4)
    expect(rows.nth(0)).to_contain_text("Expected start")
    expect(rows.nth(1)).to_contain_text(f"1Slurm jobREFUSED{REFUSAL}–")
    expect(rows.nth(2)).to_contain_text("1Slurm job 4711NODE_FAILgpu[01-02,07]")
    expect(rows.nth(3)).to_contain_text("1Slurm job 4712PENDINGResources–2030-01-02 ")
    assert accessibility_violations(page) == []
    switch_to_light(page)
    assert accessibility_violations(page) == []

    change = {"state": "RUNNING", "reason": None, "nodes": "gpu07", "expected_start_at": None}
    with database.write() as session:
        session.execute(update(Allocation).where(Allocation.external_id == "4712").values(**change))
    expect(rows.nth(3)).to_contain_text("1Slurm job 4712RUNNINGgpu07")
    expect(rows.nth(0)).not_to_contain_text("Expected start")


def test_the_allocations_fit_a_phone(open_signed_in: Callable[..., Page], job_id: str) -> None:
    phone = open_signed_in(f"#/jobs/{job_id}?tab=attempts", width=PHONE["width"])
    expect(phone.get_by_role("table", name="Allocations")).to_be_visible()
    assert phone.evaluate(FITS_JS)
    assert accessibility_violations(phone) == []


def test_a_job_that_no_batch_system_serves_has_no_table_of_allocations(
    open_signed_in: Callable[..., Page], finished_jobs: Any
) -> None:
    page = open_signed_in(f"#/jobs/{finished_jobs[0].id}?tab=attempts")
    with page.expect_response(f"**/jobs/{finished_jobs[0].id}/allocations"):
        page.reload()
    expect(page.get_by_role("region", name="Attempts")).to_be_visible()
    expect(page.get_by_role("heading", name="Allocations")).to_have_count(0)
