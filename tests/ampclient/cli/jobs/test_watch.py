import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

import httpx
import pytest

from ampclient.cli.jobs import follow
from tests.waiting import DEADLINE_S


def test_watch_exits_0_only_for_success(ampctl, server, summary):
    server.add_job("a")
    server.change("a")
    server.change("a", state="succeeded", summary=summary)
    assert ampctl("watch", "a").code == 0
    server.add_job("b", state="failed")
    assert ampctl("watch", "b").code == 1


def test_watch_of_an_unknown_job_is_an_error(ampctl):
    result = ampctl("watch", "nobody")
    assert result.code == 4
    assert result.err.startswith("error: ")
    assert "(not_found, HTTP 404)" in result.err


def test_ctrl_c_detaches_and_says_how_to_continue(start_ampctl, server):
    server.add_job("a", state="running")
    process = start_ampctl("watch", "a")
    assert "running" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert "ampctl watch a" in err
    assert "Traceback" not in err
    assert server.jobs["a"]["state"] == "running"
    assert all(request.method == "GET" for request in server.requests)


def test_several_jobs_are_watched_together_and_all_must_succeed(ampctl, server, summary):
    server.add_job("a", name="cnn float32")
    server.add_job("b", name="cnn float16")
    server.change("a")
    server.change("a", state="succeeded", summary=summary)
    server.change("b")
    server.change("b", state="running")
    server.change("b", state="failed", message="There is a NaN.")
    result = ampctl("watch", "a", "b", "a")
    assert result.code == 1
    assert [line.split()[:3] for line in result.out.splitlines()[1:]] == [
        ["a", "float32", "succeeded"],
        ["b", "float16", "failed"],
    ]
    assert "float32: succeeded" in result.err
    assert "float16: failed  There is a NaN." in result.err
    server.change("b", state="succeeded")
    assert [job["id"] for job in ampctl("watch", "a", "b", "--json").json()] == ["a", "b"]


def test_each_outage_of_the_server_is_reported_once_and_waited_for(ampctl, server, respond, clock):
    server.add_job("a", state="running")
    # The last 502 but one is that of a held request, which is no outage by itself.
    second_outage = [respond(502)] * 2
    server.next_responses = [server.handle, *[respond(503)] * 3, server.handle, *second_outage]
    server.change("a")
    server.change("a")
    server.change("a", state="succeeded")
    result = ampctl("watch", "a")
    assert result.code == 0
    assert result.err.count("Retrying …") == 2
    assert result.err.index("Retrying") < result.err.index("running")


def test_a_long_outage_ends_the_watch_and_not_the_job(ampctl, server, respond, clock, monkeypatch):
    monkeypatch.setattr(follow, "SERVER_TIMEOUT_S", 5.0)
    server.add_job("a", state="running")
    server.next_responses = [server.handle, server.handle, *[respond(503)] * 20]
    result = ampctl("watch", "a")
    assert result.code == 6
    assert result.err.splitlines()[-1].startswith("error: ")
    assert {request.method for request in server.requests} == {"GET"}


def test_a_403_response_is_not_retried(ampctl, server, respond):
    server.add_job("a", state="running")
    server.next_responses = [
        server.handle,
        respond(403, json={"code": "forbidden", "detail": "No."}),
    ]
    assert ampctl("watch", "a").code == 5
    assert len(server.requests) == 2


SAMPLE = {
    "steps_per_point": 1,
    "data": {
        "step": [0, 1, 2, 3],
        "loss": [2.5, 1.5, "NaN", 0.5],
        "loss_scale": [65536.0, 65536.0, 65536.0, 32768.0],
        "skipped": [False, False, True, False],
    },
    "skipped_steps": {"total": 1, "steps": [2]},
    "scale_changes": {"total": 0, "step": [], "before": [], "after": [], "column": []},
    "attempts": [],
}


@pytest.fixture
def sampled(server, monkeypatch):
    """The server responds to every request for a sample with the same one."""
    whole = server.handle

    def respond(request):
        if "max_points" in request.url.params:
            return httpx.Response(200, json=SAMPLE)
        return whole(request)

    monkeypatch.setattr(server, "handle", respond)


def read_until(terminal, words, seconds=DEADLINE_S):
    """Read the output of a terminal until it contains all of these words."""
    sent, deadline = b"", time.monotonic() + seconds
    while not all(word.encode() in sent for word in words):
        left_s = deadline - time.monotonic()
        assert left_s > 0, sent.decode(errors="replace")
        if select.select([terminal], [], [], left_s)[0]:
            sent += os.read(terminal, 65536)
    return sent.decode()


def test_a_terminal_shows_plots_with_skipped_steps_and_ctrl_c_detaches(
    start_ampctl, server, sampled, latest, monkeypatch
):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("COLUMNS")
    server.add_job("a", state="running", step=3, total_steps=9, latest=latest)
    server.change("a")
    for step in range(3, 9):
        server.change("a", step=step)
    terminal, command_side = pty.openpty()
    size = struct.pack("HHHH", 30, 80, 0, 0)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)
    process = start_ampctl("watch", "a", stdout=command_side, stderr=command_side)
    os.close(command_side)
    sent = read_until(terminal, ["3/9", "2^16", "2^15", "skips", "×", "8/9"])
    assert "\x1b[2K" in sent  # lines are cleared and drawn again
    assert any(0x2801 <= ord(character) <= 0x28FF for character in sent)
    process.send_signal(signal.SIGINT)
    assert "ampctl watch a" in read_until(terminal, ["Detached", "ampctl watch a"])
    assert process.wait(timeout=DEADLINE_S) == 130
    os.close(terminal)


def warning(seq, code, attempt=1):
    data = {"code": code, "message": f"The warning\n{code}."}
    facts = {"step": 3, "attempt": attempt, "created_at": "2026-01-01T00:00:00Z"}
    return {"seq": seq, "type": "warning", "data": data, **facts}


@pytest.fixture
def warned(server, summary):
    """Ended jobs with warnings, of which some concern the result of the last attempt."""
    for job_id in ("a", "b"):
        server.add_job(job_id, state="succeeded", attempt=2, summary=summary, name=f"job-{job_id}")
    server.events["a"] = [
        warning(1, "model_not_saved", attempt=1),
        warning(2, "checkpoint_failed", attempt=2),
        warning(3, "no_better_than_constant", attempt=2),
        warning(4, "model_not_exported", attempt=2),
        warning(5, "model_not_exported", attempt=2),
    ]


@pytest.mark.parametrize("command", ["watch", "get"])
def test_a_result_is_shown_with_the_warnings_that_concern_it(ampctl, server, warned, command):
    lines = ampctl(command, "a").out.splitlines()
    assert [" ".join(line.split()) for line in lines[-2:]] == [
        "warning The warning no_better_than_constant.",
        "warning The warning model_not_exported.",
    ]
    assert sum(line.startswith("warning") for line in lines) == 2
    assert "warning" not in ampctl(command, "b").out
    assert "warning" not in ampctl(command, "a", "--json").out


def test_of_several_results_each_warning_is_named_on_standard_error(ampctl, server, warned):
    result = ampctl("watch", "a", "b")
    assert "warning" not in result.out
    assert [line for line in result.err.splitlines() if "warning" in line] == [
        "job-a: warning: The warning no_better_than_constant.",
        "job-a: warning: The warning model_not_exported.",
    ]


def test_a_result_is_shown_without_its_warnings_if_they_cannot_be_read(
    ampctl, server, warned, monkeypatch
):
    whole = server.handle

    def handle(request):
        if request.url.path.endswith("/events"):
            return httpx.Response(400, json={"code": "refused", "detail": "No events."})
        return whole(request)

    monkeypatch.setattr(server, "handle", handle)
    result = ampctl("watch", "a")
    assert result.code == 0
    assert "succeeded" in result.out
