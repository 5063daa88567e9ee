"""The ranks of a job on its page: where each runs, its time for a step, and which one is slow."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from ampcore.training.ranks.times import RankTimes
from ampspec.jobs import JobSpec
from ampspec.telemetry import Event
from store import workers
from store.database import Database
from store.gangs import gang_members, gangs
from store.jobs import attempts, jobs
from store.jobs.jobs import Origin
from store.telemetry import ingest
from tests.e2e.dashboard.test_accessibility import FITS_JS, PHONE, accessibility_violations

pytestmark = pytest.mark.xdist_group("dashboard")

QUEUE = "ranks-table"
"""A queue of its own: the worker of the stack takes no part."""
SLOW = (0.010, 0.001)
FAST = (0.010, 0.004)
"""The seconds of a step, and those of its communication."""


@pytest.fixture
def gang(stack: Any) -> Iterator[str]:
    """The id of a job that runs on two workers, and whose rank 2 is slow."""
    database = Database(f"sqlite:///{stack.data / 'ampcore.sqlite'}")
    names = ["first-worker", "second-worker"]
    for name in names:
        known = {"hostname": "a-machine", "pid": 1, "version": "1", "slots": 2, "queues": [QUEUE]}
        with database.write() as session:
            workers.register(session, name, **known)
            workers.heartbeat(session, name, hardware={"gang_host": "127.0.0.1"})
    spec = {
        "name": "gang",
        "model": {"kind": "mlp", "hidden": [8]},
        "data": {"kind": "digits", "batch_size": 8},
        "runtime": {"workers": 2, "devices": 2, "queue": QUEUE},
    }
    with database.write() as session:
        job = jobs.create(session, JobSpec.parse(spec), Origin("default"))
    with database.write() as session:
        gangs.place(session)  # unless the server's thread has done so already
    for number, name in enumerate(names):
        addresses = [f"127.0.0.1:{1000 + 10 * number + port}" for port in range(3)]
        with database.write() as session:
            assert gang_members.mark_ready(session, job.id, 1, name, addresses, lease_s=600)
    for number, name in enumerate(names):
        devices = [
            {"rank": 2 * number + own, "state": "running", "device": "A processor"}
            for own in range(2)
        ]
        with database.write() as session:
            gang_members.renew(session, job.id, 1, name, lease_s=600, devices=devices)
    times = RankTimes(4)
    times.observe(100, [(100 * a, 100 * b) for a, b in (FAST, FAST, SLOW, FAST)])
    event = times.event(100)
    assert isinstance(event, Event)
    with database.write() as session:
        assert ingest.append(session, job.id, 1, [event], entries_written=0, lease_s=600)
        attempts.mark_running(session, job.id, 1, total_steps=1000, first_step=0)
    yield str(job.id)
    with database.write() as session:
        attempts.mark_cancelled(session, job.id, 1)
        for name in names:
            gang_members.end(session, job.id, 1, name)
    database.close()


def test_the_page_shows_the_time_of_each_rank_and_names_the_slow_one(
    open_signed_in: Callable[..., Page], gang: str
) -> None:
    page = open_signed_in(f"#/jobs/{gang}?tab=attempts")
    table = page.get_by_role("table", name="Ranks of attempt 1")
    rows = table.get_by_role("row")
    expect(rows).to_have_count(5)
    expect(table).to_contain_text("A processor")
    expect(rows.nth(2)).to_contain_text("1running10 ms6 ms40 %first-worker")
    expect(rows.nth(3)).to_contain_text("2running slow10 ms9 ms10 %second-worker")
    attempts_region = page.get_by_role("region", name="Attempts")
    expect(attempts_region).to_contain_text("The others wait for rank 2, which computes 1.5 times")
    assert accessibility_violations(page) == []
    phone = open_signed_in(f"#/jobs/{gang}?tab=attempts", width=PHONE["width"])
    expect(phone.get_by_role("table", name="Ranks of attempt 1")).to_be_visible()
    assert phone.evaluate(FITS_JS)
