import os
import pty
import signal
from contextlib import suppress

import pytest
from rich.console import Console

from ampclient._job.view import JobView
from ampclient.progress.fleet_table import Fleet, fleet_table
from ampclient.progress.job_progress import JobProgress
from ampspec.api.workers import Worker
from tests.waiting import DEADLINE_S, wait_until

GPU = {
    "index": 0,
    "name": "NVIDIA H200",
    "memory_used_bytes": 2**30,
    "memory_total_bytes": 4 * 2**30,
    "utilization": 0.5,
}


def test_a_pipe_has_the_fleet_once(ampctl, server, worker):
    busy = {"busy": 2, "gpus": [GPU, GPU | {"utilization": 1.0}]}
    server.workers = [worker(usage=busy, draining=True), worker(id="w2", state="lost")]
    server.add_job("a", name="digits", state="running", step=10, total_steps=40)
    server.add_job("b", name="waits")
    server.add_job("c", name="ended", state="succeeded")
    lines = [line.strip() for line in ampctl("top").out.splitlines()]
    assert lines[0].endswith("1 worker · 2 of 2 slots busy · 1 active · 1 queued")
    assert lines[3].split()[:5] == ["w1", "box", "draining", "2/2", "75"]
    assert "2 GiB of 8 GiB" in lines[3]
    assert [line.split()[:2] for line in lines[6:]] == [["digits", "running"], ["waits", "queued"]]
    assert "10/40" in lines[6]


def test_a_job_that_its_worker_has_not_reported_takes_a_slot(ampctl, server, worker):
    server.workers = [worker(usage={"busy": 0}, jobs=["a"])]
    assert "1 of 2 slots busy" in ampctl("top").out


def test_the_same_as_json(ampctl, server, worker):
    server.workers = [worker()]
    server.add_job("a", state="running")
    server.add_job("b")
    document = ampctl("top", "--json").json()
    assert document["workers"] == server.workers
    assert [job["id"] for job in document["running"]] == ["a"]
    assert [job["id"] for job in document["queued"]] == ["b"]
    assert not document["has_more_running"] | document["has_more_queued"]


def test_an_empty_fleet_says_so(ampctl):
    out = ampctl("top", "--once").out
    assert "0 workers · 0 of 0 slots busy · 0 active · 0 queued" in out
    assert "No worker is online." in out
    assert "No job runs or waits." in out


def test_more_jobs_than_are_read_are_said(ampctl, server, monkeypatch):
    monkeypatch.setattr("ampclient.cli.top.MAX_JOBS", 2)
    for number in range(3):
        server.add_job(f"a{number}")
        server.add_job(f"b{number}", state="running")
    assert "more than 2 active · more than 2 queued" in ampctl("top").out


@pytest.mark.parametrize("height", [10, 24, 60])
def test_the_fleet_fits_the_terminal_and_says_what_it_leaves_out(server, worker, height):
    workers = [Worker.model_validate(worker(id=f"w{number}")) for number in range(40)]
    jobs = [
        JobProgress(JobView.model_validate(server.add_job(f"j{number}"))) for number in range(40)
    ]
    fleet = Fleet(workers, jobs, [], has_more_running=False, has_more_queued=False)
    console = Console(width=80, height=height)
    with console.capture() as capture:
        console.print(fleet_table(fleet, 80, height))
    lines = capture.get().splitlines()
    assert len(lines) <= height
    assert max(map(len, lines)) <= 80
    [more_workers] = [line for line in lines if "more workers" in line]
    shown = sum(line.startswith("w") and "box" in line for line in lines)
    assert more_workers == f"and {40 - shown} more workers"
    assert any("more jobs" in line for line in lines)


def test_a_terminal_is_redrawn_through_an_outage_until_ctrl_c(
    start_ampctl, server, worker, respond
):
    server.workers = [worker()]
    server.add_job("a", name="digits", state="running")
    ours, theirs = pty.openpty()
    process = start_ampctl("top", "-d", "0.5", stdout=theirs)
    os.close(theirs)
    os.set_blocking(ours, False)
    drawn = b""

    def has(text):
        nonlocal drawn
        with suppress(BlockingIOError):
            drawn += os.read(ours, 100_000)
        return text in drawn

    wait_until(lambda: has(b"digits"))
    server.next_responses = [respond(503, json={"code": "busy", "detail": "Not now."})] * 50
    wait_until(lambda: has(b"Retrying"))
    server.next_responses = []
    server.add_job("b", name="another", state="running")
    wait_until(lambda: has(b"another"))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=DEADLINE_S)
    os.close(ours)
    assert (process.returncode, err) == (0, "")
