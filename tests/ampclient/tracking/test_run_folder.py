"""Runs with a folder: nothing is lost while the server is away, or when the program ends."""

import json
import logging
import os
import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampclient import Conflict, ConnectionFailed, RunFolderUnusable
from ampclient.tracking import run_folder
from ampclient.tracking.entries import LoggedSteps, PendingEntry
from ampclient.tracking.file_outbox import FileOutbox
from ampclient.tracking.run_folder import ENTRIES_FILE, RUN_FILE, RunFolder
from ampspec.jobs import State
from tests.waiting import DEADLINE_S, wait_until

URL = "http://127.0.0.1:1"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "baseline"


def kept_steps(path):
    """The steps in the file of a folder."""
    lines = (path / ENTRIES_FILE).read_text().splitlines()
    return sum(json.loads(line)[2] for line in lines)


def entry(number, steps=1):
    return PendingEntry({"number": number}, 10, number, steps, number + steps)


def numbers(batch):
    return [entry.document["number"] for entry in batch]


def test_a_run_that_was_sent_leaves_only_its_record(track, path, stored, job_of):
    with track(folder=path, total_steps=100) as run:
        for step in range(100):
            run.log(step, loss=float(step))
    assert stored(run)["loss"].tolist() == [float(step) for step in range(100)]
    assert job_of(run).state == State.SUCCEEDED
    assert sorted(file.name for file in path.iterdir()) == ["lock", RUN_FILE]
    assert json.loads((path / RUN_FILE).read_text())["ended"] == "succeeded"


def test_a_run_begins_without_the_server_and_is_complete_when_it_is_back(
    track, network, path, stored, job_of
):
    network.is_down = True
    with track("offline", folder=path, labels={"team": "vision"}) as run:
        assert (run.id, run.url) == (None, None)
        for step in range(50):
            run.log(step, loss=float(step))
        wait_until(lambda: kept_steps(path) >= 49, "the rows are in the file")
        network.is_down = False
        wait_until(lambda: run.id is not None, "the run is created")
    job = job_of(run)
    assert (job.name, job.labels, job.state) == ("offline", {"team": "vision"}, State.SUCCEEDED)
    assert stored(run)["loss"].tolist() == [float(step) for step in range(50)]


def test_what_is_left_at_the_end_is_sent_by_sync(
    *, track, client, network, path, stored, job_of, caplog
):
    run = track(folder=path, flush_timeout_s=0.1)
    run.log(0, loss=0.0)
    network.is_down = True
    for step in range(1, 20):
        run.log(step, loss=float(step))
    run.result(val_loss=0.25)
    with caplog.at_level(logging.WARNING):
        run.finish()
    assert f"ampctl run sync {path}" in caplog.text
    network.is_down = False
    synced = client.runs.sync(path)
    assert (synced.run_id, synced.state, synced.refused) == (run.id, "succeeded", "")
    assert stored(run)["loss"].tolist() == [float(step) for step in range(20)]
    job = job_of(run)
    assert (job.state, job.summary["val_loss"]) == (State.SUCCEEDED, 0.25)
    assert client.runs.sync(path)._replace(sent=0) == synced._replace(sent=0)


def test_a_sync_whose_last_response_was_lost_is_repeated(track, client, network, path, job_of):
    network.is_down = True
    run = track(folder=path, flush_timeout_s=0.1)
    run.log(loss=1.0)
    run.finish()
    network.is_down = False
    record = (path / RUN_FILE).read_text()
    entries, end = (path / ENTRIES_FILE).read_text(), (path / "end.json").read_text()
    synced = client.runs.sync(path)
    created = json.loads(record) | {"run_id": synced.run_id}
    (path / RUN_FILE).write_text(json.dumps(created))
    (path / ENTRIES_FILE).write_text(entries)
    (path / "end.json").write_text(end)
    assert client.runs.sync(path).state == "succeeded"
    assert client.jobs.get(synced.run_id).step == 1


PROGRAM = """
import sys
from ampclient import Client
folder, steps = sys.argv[1], int(sys.argv[2])
with Client() as client:
    run = client.runs.track("killed", folder=folder, resume=True)
    print(run.next_step, flush=True)
    for step in range(run.next_step, run.next_step + steps):
        run.log(loss=float(step))
    sys.stdin.read()
    run.finish()
    print(run.id)
"""


def test_what_a_killed_program_has_logged_is_in_the_run_that_the_next_one_continues(
    api, client, path
):
    def start(url, steps):
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(path), str(steps)],
            env={**os.environ, "AMPCORE_URL": url, "AMPCORE_TOKEN": api.token},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    with start(URL, 2000) as program:
        assert program.stdout.readline() == "0\n"
        wait_until(lambda: (path / ENTRIES_FILE).exists() and kept_steps(path) == 2000, "its steps")
        os.kill(program.pid, signal.SIGKILL)
    with start(api.url, 1000) as program:
        next_step, run_id = program.communicate(timeout=DEADLINE_S)[0].split()
        assert (next_step, program.returncode) == ("2000", 0)
    job = client.jobs.get(run_id)
    assert (job.state, job.name, job.attempt) == (State.SUCCEEDED, "killed", 1)
    assert job.steps()["loss"].tolist() == [float(step) for step in range(3000)]


def test_a_run_that_has_failed_goes_on_by_its_id(track, client, stored, job_of):
    run = track()
    run.log(0, loss=0.0)
    run.finish("failed", "it was interrupted")
    assert job_of(run).state == State.FAILED
    with client.runs.resume(run.id) as resumed:
        assert resumed.next_step == 1
        resumed.log(1, loss=1.0)
    job = job_of(run)
    assert (job.state, job.reason, job.message) == (State.SUCCEEDED, None, None)
    assert stored(run)["loss"].tolist() == [0.0, 1.0]
    with pytest.raises(Conflict, match="succeeded"):
        client.runs.resume(run.id)


def test_a_cancelled_run_goes_on_without_its_request(track, client, job_of):
    run = track()
    client.jobs.cancel(run.id)
    run.log(loss=1.0)
    wait_until(lambda: run.cancel_requested, "it is told to stop")
    run.finish()
    assert job_of(run).state == State.CANCELLED
    with client.runs.resume(run.id) as resumed:
        resumed.log(loss=1.0)
    assert not resumed.cancel_requested
    assert job_of(run).state == State.SUCCEEDED


def test_a_folder_with_another_run_is_refused(track, network, path):
    network.is_down = True
    run = track(folder=path, flush_timeout_s=0.1)
    run.log(loss=1.0)
    with pytest.raises(RunFolderUnusable, match="used by another program"):
        track(folder=path)
    run.finish()
    with pytest.raises(RunFolderUnusable, match="resume=True"):
        track(folder=path)


def test_the_folder_of_a_run_of_another_server_is_refused(track, client, path):
    track(folder=path).finish("failed")
    record = json.loads((path / RUN_FILE).read_text())
    (path / RUN_FILE).write_text(json.dumps(record | {"server": URL}))
    with pytest.raises(RunFolderUnusable, match=URL):
        track(folder=path, resume=True)
    with pytest.raises(RunFolderUnusable, match=URL):
        client.runs.sync(path)


def test_other_values_than_those_of_the_continued_run_are_named(track, path, caplog):
    track("first", folder=path, config={"rate": 0.1}).finish("failed")
    with caplog.at_level(logging.WARNING):
        track("second", folder=path, resume=True, config={"rate": 0.2}).finish()
    assert "other values of config, name are ignored" in caplog.text


@pytest.mark.parametrize(
    "content", ["", "{}", "[1]", '{"format": 2}', '{"format": 1, "colour": "red"}']
)
def test_a_damaged_record_is_named(client, path, content):
    path.mkdir()
    (path / RUN_FILE).write_text(content)
    with pytest.raises(RunFolderUnusable, match=RUN_FILE):
        client.runs.sync(path)


def test_a_folder_without_a_run_is_named(client, path, tmp_path):
    for folder in (path, tmp_path):
        with pytest.raises(RunFolderUnusable, match="no folder of a run"):
            client.runs.sync(folder)


def test_a_server_that_refuses_the_run_says_so_at_once(track, path):
    with pytest.raises(Exception, match="name"):
        track("", folder=path)
    track("named", folder=path, resume=True).finish()


def test_arguments_that_exclude_each_other_are_refused(track, path):
    with pytest.raises(ValueError, match="folder"):
        track(resume=True)
    with pytest.raises(ValueError, match="buffer_bytes"):
        track(folder=path, buffer_bytes=1000)


def test_sync_says_that_the_server_cannot_be_reached(track, client, network, path):
    network.is_down = True
    track(folder=path, flush_timeout_s=0.1).finish()
    with pytest.raises(ConnectionFailed):
        client.with_options(max_retries=0).runs.sync(path)


# ---- The file


@pytest.fixture
def folder(path):
    with RunFolder.begin(path, URL, {}, resume=False) as folder:
        yield folder


def test_half_a_line_is_removed(folder):
    outbox = FileOutbox(folder)
    outbox.put(entry(0))
    outbox.close()
    with folder.entries_file.open("a") as file:
        file.write("[10, 1, 1,")
    outbox = FileOutbox(folder)
    outbox.put(entry(1))
    assert numbers(outbox.take_batch()) == [0, 1]
    assert outbox.logged_steps(None) == LoggedSteps(0, 2)
    outbox.close()


def test_a_damaged_line_is_named(folder):
    folder.entries_file.write_text("[1]\n")
    with pytest.raises(RunFolderUnusable, match="damaged before byte 4"):
        FileOutbox(folder)


def test_a_full_disk_loses_entries_with_a_warning_and_damages_nothing(folder, monkeypatch, caplog):
    outbox = FileOutbox(folder)
    assert outbox.put(entry(0))
    with open("/dev/full", "ab", buffering=0) as full, monkeypatch.context() as patch:
        patch.setattr(outbox, "_file", full)
        assert not outbox.put(entry(1))
        assert not outbox.put(entry(2))
    assert caplog.text.count("so entries are lost") == 1
    assert outbox.put(entry(3))
    assert numbers(outbox.take_batch()) == [0, 3]
    assert str(outbox.take_dropped()) == "2 steps between step 1 and 2"
    outbox.close()


def test_a_record_that_cannot_be_written_ends_no_program(folder, monkeypatch, caplog):
    def fail(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(run_folder, "_replace", fail)
    folder.change(total_steps=5)
    assert folder.record.total_steps == 5
    assert "the disk is full" in caplog.text


def test_entries_that_another_program_has_sent_are_said(folder, caplog):
    outbox = FileOutbox(folder)
    outbox.put(entry(0))
    outbox.align(7)
    assert "has 7 entries" in caplog.text
    assert numbers(outbox.take_batch()) == [0]
    outbox.close()


ACTIONS = st.lists(
    st.sampled_from(["put", "send", "lose response", "refuse", "restart", "back up", "restore"]),
    max_size=40,
)


@given(ACTIONS)
def test_whatever_happens_each_entry_is_on_the_server_once_and_in_order(tmp_path_factory, actions):
    path = tmp_path_factory.mktemp("run")
    folder = RunFolder.begin(path, URL, {}, resume=False)
    outbox, server, backup, refused, put = FileOutbox(folder), [], [], [], 0
    for action in actions:
        if action == "put":
            outbox.put(entry(put))
            put += 1
        elif action in ("send", "lose response"):
            server += numbers(outbox.take_batch())
            if action == "send":
                outbox.confirm_batch()
            else:
                outbox.align(len(server))
        elif action == "refuse":
            refused += numbers(outbox.take_batch())
            outbox.refuse_batch()
            backup = server[:]
        elif action == "back up":
            backup = server[:]
        else:
            if action == "restore":
                server = backup[:]
            else:
                outbox.close()
                folder.close()
                folder = RunFolder.open(path)
                outbox = FileOutbox(folder)
            outbox.align(len(server))
    server += numbers(outbox.take_batch())
    assert sorted({*server, *refused}) == list(range(put))
    assert server == sorted(set(server))
    outbox.close()
    folder.close()
